#include "model/torch/dropout.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "base/random.hpp"
#include "model/torch/kernels/device_rows.hpp"
#include "model/torch/kernels/tensors.hpp"

namespace wmtp {
namespace {

using at::Tensor;
constexpr int64_t blocks_per_task = 4096;

/// The four elements of a whole sequence from 4 * block on share a Philox block. `before`: elements of the sequence
/// before these.
void fill_by_threads(Tensor& factors, int64_t before, int64_t threshold, double kept_factor, const DropoutKey& key) {
  if (factors.is_meta()) return;
  const int64_t per_sequence = factors.numel() / factors.size(0), first_block = before / 4;
  const int64_t blocks = (before + per_sequence + 3) / 4 - first_block;
  const int64_t* sequence = kernels::in<int64_t>(key.sequence);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, factors.scalar_type(), "dropout_factors", [&] {
    scalar_t* out = kernels::out<scalar_t>(factors);
    const scalar_t kept = scalar_t(kept_factor), left_out = scalar_t(0);
    at::parallel_for(0, factors.size(0) * blocks, blocks_per_task, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t row = block / blocks, of_sequence = first_block + block % blocks;
        const int64_t first = of_sequence * 4 - before;  // negative if the block begins in the part before
        const PhiloxBlock bits =
            philox(key.layer, uint64_t(key.step) << 40 ^ uint64_t(sequence[row]), uint64_t(of_sequence));
        for (int64_t i = std::max<int64_t>(first, 0); i < std::min(first + 4, per_sequence); ++i)
          out[row * per_sequence + i] = int64_t(bits[size_t(i - first)]) < threshold ? left_out : kept;
      }
    });
  });
}

}  // namespace

Tensor dropout_factors(const Tensor& x, double p, const DropoutKey& key) {
  Tensor factors = at::empty(x.sizes(), x.options());
  const auto threshold = int64_t(p * 0x1p32);  // an element is dropped when its 32 random bits are below this
  const double kept = 1.0 / (1.0 - p);
  const int64_t before = key.first_position * (x.numel() / (x.size(0) * x.size(1)));
  if (kernels::DeviceRowKernels* rows = kernels::device_rows(factors))
    rows->dropout_factors(key.layer, key.step, key.sequence, before, threshold, kept, factors);
  else
    fill_by_threads(factors, before, threshold, kept, key);
  return factors;
}

}  // namespace wmtp
