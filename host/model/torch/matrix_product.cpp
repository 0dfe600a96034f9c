#include "model/torch/matrix_product.hpp"

#include <ATen/record_function.h>

#include <algorithm>
#include <limits>

#include "memory/allocator.hpp"
#include "model/torch/kernels/tensors.hpp"
#include "model/torch/product_path.hpp"

namespace at::native {
/// r = beta r + alpha a b with oneDNN. LibTorch exports it without installing a header, so it may be missing.
__attribute__((weak)) void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& r, float beta, float alpha);
}  // namespace at::native

/// MKL's product of bf16 matrices in fp32, c = alpha a b + beta c, part of LibTorch where it is built with MKL.
extern "C" __attribute__((weak)) void cblas_gemm_bf16bf16f32(int order, int transpose_a, int transpose_b, int m, int n,
                                                             int k, float alpha, const void* a, int a_stride,
                                                             const void* b, int b_stride, float beta, float* c,
                                                             int c_stride);

namespace wmtp {
namespace {

using at::Tensor;

/// The products for which oneDNN 3.10 uses its brgemm kernels. Others use its older gemm, which has been observed to
/// write beyond its buffers.
bool goes_to_brgemm(int64_t m, int64_t k) { return m * k > 49152 && (m > 768 || k > 128); }

bool is_for_onednn(const Tensor& a) {
  static const bool has_it = at::native::mkldnn_matmul != nullptr && product_path(at::kFloat) == ProductPath::onednn;
  return has_it && on_cpu(a) && a.scalar_type() == at::kFloat && goes_to_brgemm(a.size(0), a.size(1));
}

/// MKL uses AMX for such products, and falls back to fp32 on processors of another vendor.
bool is_for_mkl(const Tensor& a) {
  static const bool has_it = cblas_gemm_bf16bf16f32 != nullptr && kernels::best_isa() == kernels::Isa::amx;
  return has_it && on_cpu(a) && a.scalar_type() == at::kBFloat16;
}

/// oneDNN's products take up to 1.7 times as long if they sum over many rows of b: gradients of the output layer's
/// input.
bool is_long_sum(const Tensor& a, const Tensor& b) {
  constexpr int64_t many = 8192;
  return is_for_mkl(a) && a.size(1) >= many && b.stride(1) == 1;
}

/// A matrix as BLAS takes it.
struct BlasMatrix {
  static constexpr int row_major = 101, as_is = 111, transposed = 112;

  explicit BlasMatrix(const Tensor& matrix) : kept(matrix) {
    const int64_t rows = matrix.size(0), columns = matrix.size(1);
    const bool is_turned = matrix.stride(0) == 1 && matrix.stride(1) >= std::max<int64_t>(rows, 1);
    if (!is_turned && (matrix.stride(1) != 1 || matrix.stride(0) < std::max<int64_t>(columns, 1)))
      kept = matrix.contiguous();
    transpose = is_turned ? transposed : as_is;
    const int64_t wide = is_turned ? kept.stride(1) : std::max<int64_t>(columns, kept.stride(0));
    TORCH_CHECK(std::max({rows, columns, wide}) <= std::numeric_limits<int>::max(), "a matrix of ", matrix.sizes(),
                " is too large for BLAS");
    stride = int(wide);
  }
  Tensor kept;
  int transpose, stride;
};

void mkl_product_into(const Tensor& to, const Tensor& a, const Tensor& b, bool add) {
  if (a.is_meta()) return;
  if (a.size(1) == 0 && !add) to.zero_();
  if (a.size(1) == 0 || to.numel() == 0) return;
  const BlasMatrix left(a), right(b);
  cblas_gemm_bf16bf16f32(BlasMatrix::row_major, left.transpose, right.transpose, int(a.size(0)), int(b.size(1)),
                         int(a.size(1)), 1, left.kept.const_data_ptr(), left.stride, right.kept.const_data_ptr(),
                         right.stride, add ? 1 : 0, kernels::out<float>(to), int(b.size(1)));
}

Tensor mkl_product(const Tensor& a, const Tensor& b) {
  Tensor sums = at::empty({a.size(0), b.size(1)}, a.options().dtype(at::kFloat));
  mkl_product_into(sums, a, b, /*add=*/false);
  return sums;
}

bool is_widened(const Tensor& a) { return on_cpu(a) && product_path(a.scalar_type()) == ProductPath::widened; }

// Elements widened at a time: enough for full speed, and little compared to a step's memory.
constexpr int64_t column_buffer_floats = 8 << 20, row_buffer_floats = 1 << 18;
constexpr int64_t min_rows = 64, min_columns = 16, max_columns = 2048;

/// Calls call(block of `to`, rows of a, columns of b) for each block of to = a b, with fp32 factors.
template <class Call>
void in_widened_blocks(const Tensor& to, const Tensor& a, const Tensor& b, Call call) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  if (m == 0 || n == 0) return;
  const int64_t columns =
      std::min(n, std::clamp(column_buffer_floats / std::max<int64_t>(k, 1), min_columns, max_columns));
  const int64_t rows = std::min(m, std::max(min_rows, row_buffer_floats / std::max<int64_t>({k, columns, 1})));
  for (int64_t column = 0; column < n; column += columns) {
    const int64_t num_columns = std::min(columns, n - column);
    const Tensor right = b.narrow(1, column, num_columns).to(at::kFloat);
    for (int64_t row = 0; row < m; row += rows) {
      const int64_t num_rows = std::min(rows, m - row);
      call(to.narrow(0, row, num_rows).narrow(1, column, num_columns), a.narrow(0, row, num_rows).to(at::kFloat),
           right);
    }
  }
}

void library_product_into(Tensor to, const Tensor& a, const Tensor& b, bool add) {
  const UncountedScope scratch;
  if (a.is_meta()) return;
  if (is_for_onednn(a))
    at::native::mkldnn_matmul(a, b, to, add ? 1 : 0, 1);
  else if (a.is_cuda() && to.scalar_type() != a.scalar_type())
    at::addmm_out(to, to, a, b, to.scalar_type(), /*beta=*/add ? 1 : 0);  // cuBLAS sums in fp32 and does not round
  else if (add)
    to.addmm_(a, b);
  else
    at::mm_out(to, a, b);
}

}  // namespace

bool sums_in_fp32(const Tensor& a) {
  return a.scalar_type() == at::kFloat || on_cuda(a) || is_widened(a) || is_for_mkl(a);
}

Tensor product(const Tensor& a, const Tensor& b) {
  Tensor result = at::empty({a.size(0), b.size(1)}, a.options());
  product_into(result, a, b);
  return result;
}

void product_into(Tensor to, const Tensor& a, const Tensor& b, bool add) {
  RECORD_FUNCTION("wmtp::product", {});
  if (a.is_meta() && !is_widened(a)) count_operations(2.0 * double(a.size(0)) * double(a.size(1)) * double(b.size(1)));
  if (is_widened(a))
    in_widened_blocks(to, a, b, [&](Tensor block, const Tensor& left, const Tensor& right) {
      if (block.scalar_type() == at::kFloat && block.is_contiguous())
        product_into(block, left, right, add);
      else if (add)
        block.add_(product(left, right));
      else
        block.copy_(product(left, right));
    });
  else if (to.scalar_type() == at::kFloat && is_for_mkl(a))
    mkl_product_into(to, a, b, add);
  else if (!add && is_long_sum(a, b))
    to.copy_(mkl_product(a, b));
  else
    library_product_into(to, a, b, add);
}

Tensor product_with_rows(const Tensor& x, const Tensor& weight) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return product(x.reshape({-1, x.size(-1)}), weight.t()).view(shape);
}

}  // namespace wmtp
