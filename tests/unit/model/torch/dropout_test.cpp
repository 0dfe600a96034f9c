// Dropout on the CPU: the requested share, and a function of the key only. tests/unit/cuda compares the device's bits.
#include "model/torch/dropout.hpp"

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "support/poisoned_memory.hpp"

namespace wmtp {
namespace {

using at::Tensor;

DropoutKey key_of(const std::vector<int64_t>& sequences, int64_t step = 3, uint64_t layer = 0x0123456789ABCDEFu) {
  return {layer, step, at::tensor(sequences)};
}

TEST(Dropout, DrawsABlockOfBitsForFourElementsOfASequence) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const DropoutKey key = key_of({0, (int64_t{1} << 40) - 1}, (1 << 24) - 1);
    const Tensor factors = dropout_factors(at::empty({2, 7, 5}, type), 0.75, key);  // the last block is incomplete
    EXPECT_EQ(factors.scalar_type(), type);
    for (int64_t i = 0; i < factors.numel(); ++i) {
      const uint64_t sequence = i < 35 ? 0 : (uint64_t{1} << 40) - 1, place = uint64_t(i % 35);
      const PhiloxBlock bits = philox(key.layer, uint64_t(key.step) << 40 ^ sequence, place / 4);
      EXPECT_EQ(factors.flatten()[i].item<float>(), bits[place % 4] >> 30 == 3 ? 4 : 0) << i;
    }
  }
}

TEST(Dropout, DropsTheRequestedShareAndKeepsTheMean) {
  const Tensor x = at::empty({4, 256, 256});
  for (const double p : {0.05, 0.3}) {
    const Tensor factors = dropout_factors(x, p, key_of({0, 1, 2, 3}));
    const double deviation = std::sqrt(p * (1 - p) / double(x.numel()));
    EXPECT_NEAR((factors == 0).to(at::kDouble).mean().item<double>(), p, 5 * deviation);
    EXPECT_TRUE(((factors == 0) | (factors == float(1 / (1 - p)))).all().item<bool>());
    const Tensor of_sequences = (factors == 0).to(at::kDouble).flatten(1).mean(1);
    EXPECT_LT((of_sequences - p).abs().max().item<double>(), 10 * deviation);
    const Tensor left_out = (factors == 0).to(at::kDouble).flatten() - p;
    const double neighbours = (left_out.slice(0, 1) * left_out.slice(0, 0, -1)).mean().item<double>();
    EXPECT_LT(std::abs(neighbours), 5 * p * (1 - p) / std::sqrt(double(x.numel()))) << "neighbours are correlated";
  }
}

TEST(Dropout, DependsOnSequenceStepAndLayerButNotOnTheBatchRow) {
  const Tensor two = at::empty({2, 64}), one = at::empty({1, 64});
  const Tensor first = dropout_factors(two, 0.5, key_of({8, 9}));
  EXPECT_TRUE(at::equal(dropout_factors(one, 0.5, key_of({9})), first.narrow(0, 1, 1)));
  EXPECT_FALSE(at::equal(first[0], first[1]));
  EXPECT_FALSE(at::equal(dropout_factors(two, 0.5, key_of({8, 9}, 4)), first));
  EXPECT_FALSE(at::equal(dropout_factors(two, 0.5, key_of({8, 9}, 3, 1)), first));
}

TEST(Dropout, OfAPartOfThePositionsIsThatPartOfTheWhole) {
  DropoutKey key = key_of({8, 9});
  const Tensor whole = dropout_factors(at::empty({2, 12, 5}), 0.5, key);
  key.first_position = 3;  // 15 elements before: in the middle of a block
  EXPECT_TRUE(at::equal(dropout_factors(at::empty({2, 6, 5}), 0.5, key), whole.narrow(1, 3, 6)));
}

}  // namespace
}  // namespace wmtp
