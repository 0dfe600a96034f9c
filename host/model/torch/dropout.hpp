// Dropout factors as a function of a key, so that they are the same in recomputation and in every layout. Computed on
// the device of the activations: nothing is copied between devices.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace wmtp {

/// The key of a draw.
struct DropoutKey {
  uint64_t layer = 0;          ///< hash of the seed and the layer's name
  int64_t step = 0;            ///< optimizer step, below 2^24
  at::Tensor sequence;         ///< [B] int64, below 2^40, on the device of the activations
  int64_t first_position = 0;  ///< of the activations in their sequences
};

/// Like x [B, S, ...], on the CPU or a CUDA device: 0 with probability p, else 1/(1-p).
at::Tensor dropout_factors(const at::Tensor& x, double p, const DropoutKey& key);

}  // namespace wmtp
