// A Llama block's forward and backward pass as allocations: what engine/model/block.cpp, ops.cpp and attention.cpp keep.
//
// N tokens, D width, Q = D features of queries, K features of keys (and of values), F feed-forward, H heads; e bytes an
// element in the compute dtype. An operation keeps its input only where a weight that reads it trains.
//
//   kept from a forward pass with grad   bytes                     when
//   both norms' scales                   2 * 4 N                   always
//   first norm's output                  N D e                     wq, wk or wv trains, or has something beside it
//   queries, keys, values, log-sums      N (Q + 2K) e + 4 N H      always
//   mixed values                         N Q e                     wo
//   residual after attention             N D e                     always
//   second norm's output                 N D e                     w1 or w3
//   gate and up                          2 N F e                   always
//   their product                        N F e                     w2
//   what stands beside a slot            N columns e               for each declared matrix that does not read the
//                                                                  slot's input (LoRA's B: rank columns)
//   output                               N D e                     always (it is the next block's input)
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

/// What one forward pass with grad leaves.
struct KeptBlock {
  Held scales, first_norm, attention, mixed, residual, second_norm, gate_up, product, beside, output;
};

class PlannedBlock {
 public:
  PlannedBlock(Ledger& ledger, const BlockSizes& sizes, const PlannedUnit& unit);

  KeptBlock forward() const;
  /// The output alone.
  Held forward_without_grad() const;
  /// With the gradient of the output held by the caller. Gives that of the input; uses up what was kept, the output
  /// excepted.
  Held backward(KeptBlock& kept) const;

 private:
  Held hold(int64_t bytes) const { return {ledger_, MemoryCategory::activations, bytes}; }
  bool keeps_input(int slot) const;
  int64_t beside_bytes() const;
  Held slot_output(int slot) const;
  void weight_gradient(int slot) const;
  int64_t scratch_of_attention(bool backward) const;

  Ledger& ledger_;
  BlockSizes s_;
  const PlannedUnit& unit_;
  int64_t ND_, NK_, NF_;  ///< bytes of [N,D], [N,K] and [N,F]
};

}  // namespace wmtp
