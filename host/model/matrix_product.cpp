#include "model/matrix_product.hpp"

#include "model/kernels/rows.hpp"

namespace at::native {
/// r = beta r + alpha a b by oneDNN. LibTorch exports it and installs no header for it, so it may be missing.
__attribute__((weak)) void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& r, float beta, float alpha);
}  // namespace at::native

namespace wmtp {
namespace {

using at::Tensor;

/// What oneDNN 3.10 gives to its brgemm kernels. The rest goes to an older gemm of its, which has been seen to write
/// beyond its buffers.
bool goes_to_brgemm(int64_t m, int64_t k) { return m * k > 49152 && (m > 768 || k > 128); }

bool is_for_onednn(const Tensor& a) {
  static const bool has_it = at::native::mkldnn_matmul != nullptr && kernels::runs(kernels::Isa::avx512);
  return has_it && a.is_cpu() && a.scalar_type() == at::kFloat && goes_to_brgemm(a.size(0), a.size(1));
}

}  // namespace

Tensor product(const Tensor& a, const Tensor& b) {
  if (!is_for_onednn(a)) return at::mm(a, b);
  Tensor result = at::empty({a.size(0), b.size(1)}, a.options());
  at::native::mkldnn_matmul(a, b, result, 0, 1);
  return result;
}

void product_into(Tensor to, const Tensor& a, const Tensor& b, bool add) {
  if (is_for_onednn(a))
    at::native::mkldnn_matmul(a, b, to, add ? 1 : 0, 1);
  else if (add)
    to.addmm_(a, b);
  else
    at::mm_out(to, a, b);
}

Tensor product_with_rows(const Tensor& x, const Tensor& weight) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return product(x.reshape({-1, x.size(-1)}), weight.t()).view(shape);
}

}  // namespace wmtp
