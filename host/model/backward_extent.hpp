// How far a step's backward pass goes: down to the lowest block that trains, and through those heads only that lead to
// something that trains. One answer for the step, its count of operations and its plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/block.hpp"

namespace wmtp {

class BackwardExtent {
 public:
  /// `trains`: whether a parameter of a unit ("tok_embeddings", "layers.0", "norm") or of its adapter trains. `heads`:
  /// number of token heads, 0 for a model without.
  BackwardExtent(const ModelConfig& model, int64_t heads, const std::function<bool(const std::string& unit)>& trains);

  /// The lowest trunk block that is differentiated; num_trunk_blocks if none is.
  int64_t lowest_block() const { return lowest_block_; }
  bool trains_embedding() const { return trains_embedding_; }
  int64_t num_heads() const { return int64_t(heads_.size()); }
  /// Whether something below a head's loss trains, the output layer aside: the head itself, the final norm, the trunk
  /// or, if heads are chained, a head before it. `head` is 1-based.
  bool reaches_head(int64_t head) const { return heads_[size_t(head - 1)]; }
  /// The first head that is reached; the number of heads + 1 if none is. All heads after it are reached if they are
  /// chained.
  int64_t first_head() const;

 private:
  bool trains_embedding_;
  int64_t lowest_block_;
  std::vector<bool> heads_;
};

}  // namespace wmtp
