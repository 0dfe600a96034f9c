// The memory of a block's forward and backward pass: runs the forward pass of core/model/block.hpp with operations that
// allocate like those of engine/model/ops.cpp and engine/model/attention.cpp, and record what autograd keeps.
//
// An operation keeps the inputs that its backward pass needs; a linear layer keeps its input only if its weight trains
// or an adapter reads it. A gradient with two contributions is summed in place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/model/block.hpp"
#include "core/replay/layout.hpp"
#include "core/replay/ledger.hpp"
#include "core/replay/unit.hpp"

namespace wmtp {

/// Memory with several owners, like a tensor.
using SharedMemory = std::shared_ptr<Held>;

struct PassSizes {
  int64_t sequences, positions;
  int64_t element;                                                        ///< bytes per element in the compute dtype
  PlannedAxis group = {};                                                 ///< the ranks that divide the positions
  int64_t tokens() const { return sequences * positions / group.ranks; }  ///< on this rank
};

/// The memory of gradients during a block's backward pass.
class Gradients {
 public:
  Gradients(Ledger& ledger, size_t values) : ledger_(ledger), of_values_(values) {}
  SharedMemory hold(int64_t bytes) const { return std::make_shared<Held>(ledger_, MemoryCategory::activations, bytes); }
  /// Adds a contribution, in place if the sum so far has no other owner.
  void give(size_t value, const SharedMemory& contribution, int64_t bytes) {
    SharedMemory& sum = of_values_[value];
    if (!sum)
      sum = contribution;
    else if (sum.use_count() > 1)
      sum = hold(bytes);
  }
  void compute(double operations) { ledger_.compute(operations); }
  /// What this rank receives in an all-to-all of `bytes`, with which no product overlaps.
  SharedMemory exchange(const PlannedAxis& group, int64_t bytes) const {
    const SharedMemory sent = hold(bytes);
    InFlight exchange = ledger_.start(group.all_to_all(bytes));
    SharedMemory received = hold(bytes);
    ledger_.finish(exchange);
    return received;
  }
  SharedMemory take(size_t value) { return std::move(of_values_[value]); }

 private:
  Ledger& ledger_;
  std::vector<SharedMemory> of_values_;
};

/// What a forward pass keeps for its backward pass.
struct KeptBlock {
  struct Operation {
    size_t output;  ///< the value that it computes
    /// Adds the gradients of the operation's inputs, given the gradient of its output. Owns what the operation keeps.
    std::function<void(Gradients&, const SharedMemory& d_output)> backward;
  };
  std::vector<Operation> operations;
  size_t values = 0;
  SharedMemory output;
};

class PlannedBlock {
 public:
  PlannedBlock(Ledger& ledger, const ModelConfig& model, const PassSizes& sizes, const PlannedUnit& unit)
      : ledger_(ledger), model_(model), sizes_(sizes), unit_(unit) {}

  KeptBlock forward() const;
  /// Returns the output.
  SharedMemory forward_without_grad() const;
  /// Returns the gradients of the input and of a chained head's embeddings; the caller holds the output's gradient.
  /// Releases all of `kept`.
  std::pair<SharedMemory, SharedMemory> backward(KeptBlock& kept) const;

 private:
  friend class PlannedMath;
  SharedMemory run(KeptBlock* kept) const;
  Ledger& ledger_;
  const ModelConfig& model_;
  PassSizes sizes_;
  const PlannedUnit& unit_;
};

}  // namespace wmtp
