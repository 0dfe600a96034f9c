// The allocations of a Llama block's forward and backward pass, as made by engine/model/block.cpp, ops.cpp and
// attention.cpp.
//
// N tokens, D width, Q = D features of queries, K features of keys (and of values), F feed-forward, H heads; e bytes per
// element in the compute dtype. An operation keeps its input only if a weight that reads it trains.
//
//   kept by a forward pass with grad     bytes                     when
//   scales of both norms                 2 * 4 N                   always
//   output of the first norm             N D e                     wq, wk or wv trains or has an adapter
//   queries, keys, values, log-sums      N (Q + 2K) e + 4 N H      always
//   output of attention                  N Q e                     wo trains or has an adapter
//   residual after attention             N D e                     always
//   output of the second norm            N D e                     w1 or w3 trains or has an adapter
//   gate and up                          2 N F e                   always
//   their product                        N F e                     w2 trains or has an adapter
//   inputs of adapter matrices           N columns e               each matrix that does not read the linear layer's
//                                                                  input (LoRA's B: rank columns)
//   output                               N D e                     always (the next block's input)
#pragma once

#include <cstdint>

#include "core/plan/layout.hpp"
#include "core/plan/ledger.hpp"

namespace wmtp {

struct BlockSizes {
  int64_t sequences, positions, dim, heads, kv_heads, head_dim, ffn, element;
  bool qkv_bias = false;
  int64_t tokens() const { return sequences * positions; }
};

/// What a forward pass with grad keeps for the backward pass.
struct KeptBlock {
  Held scales, first_norm, attention, mixed, residual, second_norm, gate_up, product, adapter_inputs, output;
};

class PlannedBlock {
 public:
  PlannedBlock(Ledger& ledger, const BlockSizes& sizes, const PlannedUnit& unit);

  KeptBlock forward() const;
  /// Returns the output.
  Held forward_without_grad() const;
  /// Returns the gradient of the input; the caller holds that of the output. Releases all of `kept` but the output.
  Held backward(KeptBlock& kept) const;

 private:
  Held hold(int64_t bytes) const { return {ledger_, MemoryCategory::activations, bytes}; }
  bool keeps_input(int slot) const;
  int64_t adapter_input_bytes() const;
  Held slot_output(int slot) const;
  void weight_gradient(int slot) const;
  int64_t attention_scratch_bytes(bool backward) const;

  Ledger& ledger_;
  BlockSizes s_;
  const PlannedUnit& unit_;
  int64_t ND_, NK_, NF_;  ///< bytes of [N,D], [N,K] and [N,F]
};

}  // namespace wmtp
