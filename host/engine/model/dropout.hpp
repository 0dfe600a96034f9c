// Dropout's factors as a function of what they are for, so that a forward pass that runs again, and every layout, draw
// the same. Computed where the activations lie: nothing is copied between devices.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace wmtp {

/// What a draw is keyed by.
struct DropoutKey {
  uint64_t layer = 0;   ///< of the seed and the layer's name
  int64_t step = 0;     ///< optimizer step, below 2^24
  at::Tensor sequence;  ///< [B] int64, below 2^40, on the device of the activations
};

/// Like x [B, ...]: 0 with probability p, else 1/(1-p).
at::Tensor dropout_factors(const at::Tensor& x, double p, const DropoutKey& key);

namespace detail {
/// The two ways to the same bits: threads on the CPU, and tensor operations on any device.
at::Tensor dropout_factors_by_threads(const at::Tensor& x, double p, const DropoutKey& key);
at::Tensor dropout_factors_by_tensors(const at::Tensor& x, double p, const DropoutKey& key);
}  // namespace detail

}  // namespace wmtp
