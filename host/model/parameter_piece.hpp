// ParameterPiece: the part of a parameter that a rank has under tensor parallelism. A parameter is whole, or cut by
// rows or by columns into equal pieces (BlockLayer::cut, model/block.hpp). A whole one is a piece, too: the only one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace wmtp {

/// By which dimension a parameter is cut: the first or the last.
enum class ParameterCut { none, rows, columns };

class ParameterPiece {
 public:
  /// Piece `index` of `pieces`, which must divide the cut dimension of `whole`.
  ParameterPiece(const std::vector<int64_t>& whole, ParameterCut cut, int64_t index, int64_t pieces)
      : shape_(whole), cut_(pieces > 1 ? cut : ParameterCut::none), index_(index), width_(whole.back()) {
    if (cut_ == ParameterCut::rows) shape_.front() /= pieces;
    if (cut_ == ParameterCut::columns) shape_.back() /= pieces;
    count_ = std::accumulate(shape_.begin(), shape_.end(), int64_t{1}, std::multiplies<>());
  }

  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t count() const { return count_; }
  bool is_whole() const { return cut_ == ParameterCut::none; }
  /// The dimension along which the pieces join. [not of a whole parameter]
  int64_t dimension() const { return cut_ == ParameterCut::rows ? 0 : int64_t(shape_.size()) - 1; }
  /// [first, end) of a piece by columns; empty of others, which are contiguous in the parameter.
  std::vector<int64_t> columns() const {
    if (cut_ != ParameterCut::columns) return {};
    return {index_ * shape_.back(), (index_ + 1) * shape_.back()};
  }
  /// The elements of the flattened parameter before a piece by rows; 0 of others.
  int64_t first_element() const { return cut_ == ParameterCut::rows ? index_ * count_ : 0; }

  /// Calls on_run(its first element in the flattened parameter, its offset from `begin`, its length) for each run of
  /// elements [begin, begin + count) of the flattened piece that is contiguous in the parameter, in order.
  template <class OnRun>
  void for_each_run(int64_t begin, int64_t count, OnRun on_run) const {
    if (cut_ != ParameterCut::columns) return on_run(first_element() + begin, int64_t{0}, count);
    const int64_t columns = shape_.back();
    for (int64_t at = begin; at < begin + count;) {
      const int64_t row = at / columns, end = std::min((row + 1) * columns, begin + count);
      on_run(row * width_ + index_ * columns + at % columns, at - begin, end - at);
      at = end;
    }
  }

 private:
  std::vector<int64_t> shape_;
  ParameterCut cut_;
  int64_t index_, width_, count_ = 0;
};

}  // namespace wmtp
