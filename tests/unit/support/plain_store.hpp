// A WeightStore of plain tensors, for testing one part of the model; sums the gradients that it receives.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "model/torch/weight_store.hpp"
#include "support/poisoned_memory.hpp"

namespace wmtp::test {

class PlainStore final : public WeightStore {
 public:
  WeightHandle add(const at::Tensor& value, bool trains = true) {
    entries_.push_back({value, at::zeros(value.sizes(), at::kDouble), trains});
    return {this, int(entries_.size()) - 1};
  }
  /// The gradient so far, fp64.
  const at::Tensor& gradient(const WeightHandle& handle) const { return entries_[size_t(handle.index)].gradient; }
  int64_t product_rows = 0;  ///< rows that went through add_product, over all parameters
  int writes = 0;            ///< calls that gave a gradient

  at::Tensor weight(int index) override { return entry(index).value; }
  bool trains(int index) const override { return entries_[size_t(index)].trains; }
  void add_product(int index, const at::Tensor& left, const at::Tensor& right) override {
    product_rows += left.size(0);
    ++writes;
    entry(index).gradient += at::mm(left.to(at::kDouble).t(), right.to(at::kDouble));
  }
  void add_gradient(int index, const at::Tensor& value) override {
    ++writes;
    entry(index).gradient += value;
  }
  void add_rows(int index, const at::Tensor& rows, const at::Tensor& values) override {
    ++writes;
    entry(index).gradient.index_add_(0, rows, values.to(at::kDouble));
  }

 private:
  struct Entry {
    at::Tensor value, gradient;
    bool trains;
  };
  Entry& entry(int index) { return entries_[size_t(index)]; }
  std::vector<Entry> entries_;
};

/// |a - b| / |b|, both fp64: 0 when both are zero.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor wide = b.to(at::kDouble);
  const double size = wide.norm().item<double>();
  const double difference = (a.to(at::kDouble) - wide).norm().item<double>();
  return size == 0 ? difference : difference / size;
}

}  // namespace wmtp::test
