#include "inference/row_math.hpp"

#include <ATen/Parallel.h>

#include <algorithm>

#include "model/torch/kernels/products.hpp"
#include "model/torch/kernels/tensors.hpp"

namespace wmtp {

using at::Tensor;
using kernels::Bf16;
using kernels::in;
using kernels::out;

namespace {

/// Below this many multiplications a second thread costs more time than it saves.
constexpr int64_t multiplications_per_task = int64_t{1} << 19;

}  // namespace

Tensor row_products(const Tensor& x, const Tensor& w) {
  const int64_t n = x.size(0), width = x.size(1), outs = w.size(0), block = kernels::columns_per_block;
  Tensor y = at::empty({n, outs}, x.options());
  const int64_t grain = std::max<int64_t>(1, multiplications_per_task / (n * width * block));
  at::parallel_for(0, (outs + block - 1) / block, grain, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * block, last = std::min(end * block, outs);
    const kernels::Products& products = kernels::products();
    if (w.scalar_type() == at::kBFloat16)
      products.times_transposed_bf16(in<float>(x), in<Bf16>(w) + first * width, out<float>(y) + first, n, last - first,
                                     width, outs);
    else
      products.times_transposed(in<float>(x), in<float>(w) + first * width, out<float>(y) + first, n, last - first,
                                width, outs);
  });
  return y;
}

Tensor row_norms(const Tensor& x, const Tensor& weight, double eps) {
  const int64_t width = x.size(1);
  Tensor y = at::empty_like(x), scale = at::empty({x.size(0)}, x.options());
  for_each_row(x.size(0), [&](int64_t row) {
    kernels::rows<float>().rms_norm(in<float>(x) + row * width, in<float>(weight), float(eps),
                                    out<float>(y) + row * width, out<float>(scale) + row, 1, width);
  });
  return y;
}

Tensor row_swiglu(const Tensor& gate, const Tensor& up) {
  Tensor y = at::empty_like(gate);
  const int64_t width = gate.size(1);
  // Row by row: the position of a kernel's last, incomplete vector must not depend on the preceding rows.
  for_each_row(gate.size(0), [&](int64_t row) {
    const int64_t begin = row * width;
    kernels::rows<float>().swiglu(in<float>(gate) + begin, in<float>(up) + begin, out<float>(y) + begin, width);
  });
  return y;
}

Tensor row_rotated(const Tensor& x, const Tensor& rotary, const std::vector<int64_t>& positions) {
  Tensor y = at::empty_like(x);
  const int64_t width = 2 * rotary.size(1), size = x.size(1);
  const float* angles = in<float>(rotary);
  for_each_row(x.size(0), [&](int64_t row) {
    kernels::rows<float>().rotate(in<float>(x) + row * size, angles + positions[size_t(row)] * width, 1.0f,
                                  out<float>(y) + row * size, size / width, width);
  });
  return y;
}

Tensor with_bias(const Tensor& x, const Tensor& bias) {
  if (!bias.defined()) return x;
  const int64_t width = x.size(1);
  for (int64_t begin = 0; begin < x.numel(); begin += width)
    kernels::rows<float>().accumulate(out<float>(x) + begin, in<float>(bias), /*first=*/false, width);
  return x;
}

Tensor row_add(const Tensor& x, const Tensor& y) {
  Tensor sum = x.clone();
  kernels::rows<float>().accumulate(out<float>(sum), in<float>(y), /*first=*/false, x.numel());
  return sum;
}

}  // namespace wmtp
