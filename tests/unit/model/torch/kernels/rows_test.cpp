// The row kernels' cross entropy and norms, for every instruction set of this processor, against the formulas in fp64.
#include "model/torch/kernels/rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace wmtp::kernels {
namespace {

struct Row {
  double loss, log_sum, entropy, hit;
};

Row by_hand(const std::vector<double>& logits, size_t target) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0, entropy = 0;
  for (const double logit : logits) sum += std::exp(logit - highest);
  for (const double logit : logits) {
    const double p = std::exp(logit - highest) / sum;
    if (p > 0) entropy -= p * std::log(p);
  }
  return {std::log(sum) + highest - logits[target], std::log(sum) + highest, entropy,
          logits[target] == highest ? 1.0 : 0.0};
}

void convert(float x, float& to) { to = x; }
void convert(float x, Bf16& to) { to.bits = uint16_t(std::bit_cast<uint32_t>(x) >> 16); }
double wide(float x) { return x; }
double wide(Bf16 x) { return std::bit_cast<float>(uint32_t(x.bits) << 16); }

template <class T>
struct Scored {
  std::vector<T> logits;
  std::vector<float> loss, log_sum, entropy, hit;

  Scored(Isa isa, const std::vector<float>& values, const std::vector<int64_t>& targets, bool entropies = true,
         bool hits = true)
      : logits(values.size()) {
    for (size_t i = 0; i < values.size(); ++i) convert(values[i], logits[i]);
    for (auto* part : {&loss, &log_sum, &entropy, &hit}) part->assign(targets.size(), -7.0F);
    const auto count = int64_t(targets.size());
    rows<T>(isa).cross_entropy(logits.data(), targets.data(), loss.data(), log_sum.data(),
                               entropies ? entropy.data() : nullptr, hits ? hit.data() : nullptr, count,
                               int64_t(values.size()) / count);
  }
  Row expected(size_t row, int64_t target) const {
    const size_t width = logits.size() / loss.size();
    std::vector<double> values;
    for (size_t i = 0; i < width; ++i) values.push_back(wide(logits[row * width + i]));
    return by_hand(values, size_t(target));
  }
};

class RowKernels : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!runs(GetParam())) GTEST_SKIP() << "this processor has no such instructions";
  }
  template <class T>
  void compare_at(int64_t width, float spread) {
    std::mt19937 random(uint32_t(width) + 1);
    std::normal_distribution<float> normal(0, spread);
    const size_t count = 5;
    std::vector<float> values(count * size_t(width));
    std::vector<int64_t> targets(count);
    for (float& value : values) value = normal(random);
    for (int64_t& target : targets) target = int64_t(random() % uint32_t(width));
    const float* first = values.data();  // the first row hits, so that hits are not all zero in a wide row
    targets[0] = std::max_element(first, first + width) - first;
    const Scored<T> scored(GetParam(), values, targets);
    for (size_t r = 0; r < count; ++r) {
      const Row row = scored.expected(r, targets[r]);
      EXPECT_NEAR(scored.loss[r], row.loss, 2e-6 * (1 + std::abs(row.loss))) << "width " << width;
      EXPECT_NEAR(scored.log_sum[r], row.log_sum, 2e-6 * (1 + std::abs(row.log_sum))) << "width " << width;
      EXPECT_NEAR(scored.entropy[r], row.entropy, 4e-6 * (1 + row.entropy)) << "width " << width;
      EXPECT_EQ(scored.hit[r], row.hit) << "width " << width;
    }
  }
};

TEST_P(RowKernels, GiveLossEntropyAndHitOfAnyWidth) {
  for (const int64_t width : {1, 2, 15, 16, 17, 33, 1000, 4096, 32000}) {
    compare_at<float>(width, 2);
    compare_at<Bf16>(width, 2);
  }
}

TEST_P(RowKernels, KeepAllDigitsWithLargeLogits) {
  for (const float spread : {30.0F, 1e4F, 1e30F}) {
    compare_at<float>(777, spread);
    compare_at<Bf16>(777, spread);
  }
}

TEST_P(RowKernels, StayFiniteWithInfiniteLogitDifferences) {
  const float most = 3e38F;
  const Scored<float> scored(GetParam(), {most, -most, -most, most}, {0});
  EXPECT_NEAR(scored.entropy[0], std::log(2.0), 1e-6);
  EXPECT_NEAR(scored.loss[0], std::log(2.0), 1e-6);
  EXPECT_EQ(scored.hit[0], 1.0F);
}

TEST_P(RowKernels, ComputeTheEntropyOfEqualLogits) {
  const Scored<Bf16> scored(GetParam(), std::vector<float>(4096, 5.0F), {17});
  EXPECT_NEAR(scored.entropy[0], std::log(4096.0), 1e-5);
}

TEST_P(RowKernels, CountATieAsAHitWhenNoOtherIsLarger) {
  const std::vector<float> row = {1, 3, 3, 2};
  std::vector<float> values;
  for (int i = 0; i < 4; ++i) values.insert(values.end(), row.begin(), row.end());
  EXPECT_EQ(Scored<float>(GetParam(), values, {0, 1, 2, 3}).hit, (std::vector<float>{0, 1, 1, 0}));
  EXPECT_EQ(Scored<Bf16>(GetParam(), values, {0, 1, 2, 3}).hit, (std::vector<float>{0, 1, 1, 0}));
}

TEST_P(RowKernels, AreZeroForAVocabularyOfOne) {
  const Scored<float> scored(GetParam(), {-12.5F}, {0});
  EXPECT_EQ(scored.loss[0], 0.0F);
  EXPECT_EQ(scored.entropy[0], 0.0F);
  EXPECT_EQ(scored.hit[0], 1.0F);
}

/// The columns of one of several ranks, between others that are not read.
template <class T>
void expect_lacks_targets(Isa isa) {
  const std::vector<float> values = {1, 3, 2, 0.5F, 1, 3, 2, 0.5F, 1, 3, 2, 0.5F};
  const std::vector<int64_t> outside = {-1, 4, int64_t{1} << 40};
  const Scored<T> scored(isa, values, outside), inside(isa, values, {0, 0, 0});
  EXPECT_EQ(scored.log_sum, inside.log_sum);
  EXPECT_EQ(scored.entropy, inside.entropy);
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(scored.loss[r], std::numeric_limits<float>::infinity());
    EXPECT_EQ(scored.hit[r], 0.0F);
  }
  std::vector<T> gradient = scored.logits;
  const std::vector<float> coefficients = {1, 2, 0};
  rows<T>(isa).cross_entropy_backward(gradient.data(), outside.data(), scored.log_sum.data(), coefficients.data(), 3,
                                      4);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(wide(gradient[i]), coefficients[i / 4] * std::exp(wide(scored.logits[i]) - scored.log_sum[i / 4]),
                sizeof(T) == 2 ? 4e-3 : 1e-6)
        << i;
}

TEST_P(RowKernels, GiveATargetThatIsNoColumnAnInfiniteLossAndTheSoftmaxAsGradient) {
  expect_lacks_targets<float>(GetParam());
  expect_lacks_targets<Bf16>(GetParam());
}

TEST_P(RowKernels, WriteOnlyRequestedOutputs) {
  const std::vector<float> values = {1, 3, 3, 2};
  const Scored<float> all(GetParam(), values, {1});
  const Scored<float> none(GetParam(), values, {1}, false, false), hits(GetParam(), values, {1}, false, true);
  EXPECT_EQ(none.entropy[0], -7.0F);
  EXPECT_EQ(none.hit[0], -7.0F);
  EXPECT_EQ(hits.entropy[0], -7.0F);
  EXPECT_EQ(hits.hit[0], 1.0F);
  EXPECT_NEAR(none.loss[0], all.loss[0], 1e-6);
}

TEST_P(RowKernels, PropagateNan) {
  const Scored<float> scored(GetParam(), {1, std::numeric_limits<float>::quiet_NaN(), 2}, {0});
  EXPECT_TRUE(std::isnan(scored.loss[0]));
  EXPECT_TRUE(std::isnan(scored.entropy[0]));
}

TEST_P(RowKernels, SumPowersInDoublePrecisionAndFindTheLargest) {
  std::mt19937 random(3);
  std::normal_distribution<float> draw(0, 1e-3F);
  for (const int64_t count : {0, 1, 31, 32, 1000}) {
    std::vector<float> x((size_t(count)));
    double first = 0, second = 0, largest = 0;
    for (float& value : x) {
      value = draw(random);
      first += std::abs(double(value));
      second += double(value) * value;
      largest = std::max(largest, std::abs(double(value)));
    }
    const auto part = [&](int order) { return rows<float>(GetParam()).norm_part(x.data(), order, count); };
    EXPECT_NEAR(part(1), first, 1e-13 * first);  // fp64's rounding, of up to 1,000 sums
    EXPECT_NEAR(part(2), second, 1e-13 * second);
    EXPECT_EQ(part(0), largest);
    for (const size_t at : {size_t(0), x.size() / 2}) {
      if (x.empty()) continue;
      std::vector<float> broken = x;
      broken[at] = std::numeric_limits<float>::quiet_NaN();
      for (const int order : {0, 1, 2})
        EXPECT_TRUE(std::isnan(rows<float>(GetParam()).norm_part(broken.data(), order, count))) << order;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RowKernels, testing::Values(Isa::generic, Isa::avx2, Isa::avx512, Isa::amx),
                         [](const auto& info) {
                           return std::string(std::array{"Generic", "Avx2", "Avx512", "Amx"}[size_t(info.param)]);
                         });

}  // namespace
}  // namespace wmtp::kernels
