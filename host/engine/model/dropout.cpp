#include "engine/model/dropout.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "base/random.hpp"

namespace wmtp {
namespace {

using at::Tensor;
constexpr int64_t blocks_of_task = 4096;
constexpr int64_t low_half = 0xFFFFFFFF;

/// An element is dropped if its 32 random bits are below this.
int64_t threshold_of(double p) { return int64_t(p * 0x1p32); }

Tensor upper_half(const Tensor& x) { return at::bitwise_right_shift(x, 32).bitwise_and_(low_half); }
Tensor lower_half(const Tensor& x) { return at::bitwise_and(x, low_half); }

/// philox() on counters stored as int64 tensors with 32-bit values; products wrap like unsigned ones.
std::array<Tensor, 4> philox_tensors(uint64_t key, std::array<Tensor, 4> c) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const Tensor a = c[0] * int64_t{0xD2511F53}, b = c[2] * int64_t{0xCD9E8D57};
    c = {upper_half(b).bitwise_xor_(c[1]).bitwise_xor_(int64_t(k0)), lower_half(b),
         upper_half(a).bitwise_xor_(c[3]).bitwise_xor_(int64_t(k1)), lower_half(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

}  // namespace

Tensor dropout_factors(const Tensor& x, double p, const DropoutKey& key) {
  return x.is_cpu() ? detail::dropout_factors_by_threads(x, p, key) : detail::dropout_factors_by_tensors(x, p, key);
}

Tensor detail::dropout_factors_by_threads(const Tensor& x, double p, const DropoutKey& key) {
  Tensor factors = at::empty(x.sizes(), x.options());
  const int64_t per_sequence = x.numel() / x.size(0), blocks = (per_sequence + 3) / 4;
  const int64_t* sequence = key.sequence.const_data_ptr<int64_t>();
  const int64_t threshold = threshold_of(p);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "dropout_factors", [&] {
    scalar_t* out = factors.mutable_data_ptr<scalar_t>();
    const scalar_t kept = scalar_t(1.0 / (1.0 - p)), left_out = scalar_t(0);
    at::parallel_for(0, x.size(0) * blocks, blocks_of_task, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t row = block / blocks, first = block % blocks * 4;
        const PhiloxBlock bits =
            philox(key.layer, uint64_t(key.step) << 40 ^ uint64_t(sequence[row]), uint64_t(block % blocks));
        for (int64_t i = first; i < std::min(first + 4, per_sequence); ++i)
          out[row * per_sequence + i] = int64_t(bits[size_t(i - first)]) < threshold ? left_out : kept;
      }
    });
  });
  return factors;
}

Tensor detail::dropout_factors_by_tensors(const Tensor& x, double p, const DropoutKey& key) {
  const int64_t per_sequence = x.numel() / x.size(0), blocks = (per_sequence + 3) / 4;
  const Tensor draw = at::bitwise_xor(key.sequence, key.step << 40).unsqueeze(1).expand({-1, blocks});
  const Tensor block = at::arange(blocks, key.sequence.options()).expand_as(draw);
  const std::array<Tensor, 4> bits =
      philox_tensors(key.layer, {lower_half(block), upper_half(block), lower_half(draw), upper_half(draw)});
  const Tensor all = at::stack({bits[0], bits[1], bits[2], bits[3]}, -1).flatten(1).narrow(1, 0, per_sequence);
  return (all >= threshold_of(p)).to(x.scalar_type()).mul_(1.0 / (1.0 - p)).view(x.sizes());
}

}  // namespace wmtp
