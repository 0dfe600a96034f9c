#include "step/head_alignment.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace wmtp {
namespace {

using at::Tensor;

HeadAlignment aligned(const std::vector<Tensor>& gradients) {
  HeadAligner aligner;
  for (const Tensor& gradient : gradients) aligner.add(gradient);
  return aligner.result();
}

TEST(HeadAlignment, IsTheInnerProductAndTheCosineAtEachPosition) {
  at::manual_seed(3);
  constexpr int64_t L = (int64_t{1} << 14) + 7;  // more than are in fp64 at a time
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    std::vector<Tensor> gradients, wide;
    for (int k = 0; k < 3; ++k) gradients.push_back(at::randn({2, L, 8}).to(type));
    for (const Tensor& one : gradients) wide.push_back(one.to(at::kDouble));
    const HeadAlignment found = aligned(gradients);
    ASSERT_EQ(found.products.sizes(), (at::IntArrayRef{2, L, 3}));
    for (size_t k = 0; k < 3; ++k) {
      const Tensor product = (wide[0] * wide[k]).sum(-1), norms = wide[0].norm(2, -1) * wide[k].norm(2, -1);
      EXPECT_TRUE(at::allclose(found.products.select(2, int64_t(k)), product, 1e-12, 1e-12));
      EXPECT_TRUE(at::allclose(found.cosines.select(2, int64_t(k)), product / norms, 1e-12, 1e-12));
    }
    EXPECT_TRUE(at::equal(found.cosines.select(2, 0), at::ones({2, L}, at::kDouble)));
  }
}

TEST(HeadAlignment, IsZeroWhereAGradientIsZeroAndOneForHead1) {
  const Tensor some = at::tensor({3.0F, 4.0F}), none = at::zeros({2});
  const auto rows = [](std::vector<Tensor> positions) { return at::stack(positions).unsqueeze(0); };
  const HeadAlignment found = aligned({rows({some, none, some}), rows({none, some, -2 * some})});
  EXPECT_TRUE(at::equal(found.cosines[0], at::tensor({1.0, 0.0, 1.0, 0.0, 1.0, -1.0}).view({3, 2})));
  EXPECT_TRUE(at::equal(found.products[0], at::tensor({25.0, 0.0, 0.0, 0.0, 25.0, -50.0}).view({3, 2})));
}

TEST(HeadAlignment, IsUnknownWhereAGradientIsNotFinite) {
  const Tensor first = at::tensor({1.0F, INFINITY, 1.0F}).view({1, 3, 1}),
               other = at::tensor({1.0F, 1.0F, NAN}).view({1, 3, 1});
  const Tensor cosines = aligned({first, other}).cosines[0];
  EXPECT_TRUE(at::equal(cosines.isnan(), at::tensor({0, 0, 1, 1, 0, 1}).view({3, 2}).to(at::kBool)));
}

}  // namespace
}  // namespace wmtp
