// How well a step uses the machine: the multiply-adds that the model itself asks for, against those that bare matrix
// multiplication would do in the same time.
//
// Counted as in PaLM (Chowdhery et al. 2022, arXiv 2204.02311, appendix B), so that figures compare with other
// trainers': for each matrix 2 operations an element and token forward, 2 for the gradient of its input, 2 for its own
// where it trains; attention 12 * dim * positions a block and token, without taking off what causality leaves out;
// nothing for what is run again, for a pass that a weighting wants, for frozen models, for the embedding. The output
// layer counts once for each head.
#pragma once

#include "shard/sharded_model.hpp"

namespace wmtp {

/// Floating-point operations of a training step for each token, in sequences of `positions` tokens. `lowest_block`:
/// the first trunk block into which gradients go (MicroStep::lowest_block).
double operations_per_token(const ShardedModel& model, int64_t lowest_block, int64_t positions);

/// Floating-point operations a second of a bare multiplication [rows, dim] x [dim, ffn_dim] on this rank's device with
/// this rank's threads, in the dtype that the model computes in: the best of a few, in about 40 ms.
/// [all ranks at once, so that they share the machine as they do in a step]
double multiplication_rate(const ShardedModel& model, int64_t rows);

}  // namespace wmtp
