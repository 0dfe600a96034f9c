#include "step/head_alignment.hpp"

#include <algorithm>

#include "step/head_products.hpp"

namespace wmtp {
namespace {

using at::Tensor;

/// Inner products of the rows of a and b [B,L,D], [B,L] fp64.
Tensor row_products(const Tensor& a, const Tensor& b) {
  const int64_t B = a.size(0), L = a.size(1), D = a.size(2), rows = std::max<int64_t>(elements_in_fp64 / D, 1);
  const Tensor left = a.reshape({B * L, D}), right = b.reshape({B * L, D});
  const Tensor products = at::empty({B * L}, a.options().dtype(at::kDouble));
  for (int64_t first = 0; first < B * L; first += rows) {
    const int64_t count = std::min(rows, B * L - first);
    const auto part = [&](const Tensor& x) { return x.narrow(0, first, count).to(at::kDouble); };
    products.narrow(0, first, count).copy_(part(left).mul_(part(right)).sum(1));
  }
  return products.view({B, L});
}

}  // namespace

void HeadAligner::add(const Tensor& gradient) {
  const Tensor squares = row_products(gradient, gradient);
  if (!first_.defined()) {
    first_ = gradient;
    first_squares_ = squares;
    products_.push_back(squares);
    cosines_.push_back(at::where(squares.isfinite(), 1.0, squares * 0));
    return;
  }
  const Tensor product = row_products(first_, gradient), norms = (first_squares_ * squares).sqrt_();
  products_.push_back(product);
  cosines_.push_back(at::where(norms == 0, 0.0, (product / norms).clamp_(-1, 1)));
}

HeadAlignment HeadAligner::result() const { return {at::stack(products_, -1), at::stack(cosines_, -1)}; }

}  // namespace wmtp
