// Products whose rows are independent, for every instruction set of this processor.
#include "model/torch/kernels/products.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "model/chunks.hpp"

namespace wmtp::kernels {
namespace {

class RowProducts : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!runs(GetParam())) GTEST_SKIP() << "this processor has no such instructions";
  }
  std::vector<float> drawn(int64_t count) {
    std::vector<float> values((size_t(count)));
    for (float& value : values) value = normal_(random_);
    return values;
  }
  std::mt19937 random_{5};
  std::normal_distribution<float> normal_;
};

// Widths around a vector and whole blocks of them, columns around a block.
constexpr int64_t widths[] = {1, 6, 15, 16, 17, 40, 64, 100}, columns[] = {1, 7, 8, 9, 33};

TEST_P(RowProducts, EqualTheSumsOfProducts) {
  for (const int64_t width : widths)
    for (const int64_t outs : columns) {
      const int64_t rows = 3, stride = outs + 2;
      const auto x = drawn(rows * width), w = drawn(outs * width);
      std::vector<float> y(size_t(rows * stride), -7.0F);
      products(GetParam()).times_transposed(x.data(), w.data(), y.data(), rows, outs, width, stride);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t o = 0; o < stride; ++o) {
          double sum = 0, size = 0;
          for (int64_t i = 0; o < outs && i < width; ++i) {
            const double product = double(x[size_t(r * width + i)]) * w[size_t(o * width + i)];
            sum += product;
            size += std::abs(product);
          }
          const float found = y[size_t(r * stride + o)];
          if (o < outs)
            EXPECT_NEAR(found, sum, 1e-6 * size) << width << " wide, row " << r << ", column " << o;
          else
            EXPECT_EQ(found, -7.0F) << "written beyond the row";
        }
    }
}

TEST_P(RowProducts, HaveTheSameBitsForOneRowOrMany) {
  for (const int64_t width : widths)
    for (const int64_t outs : columns) {
      const int64_t rows = 5;
      const auto x = drawn(rows * width), w = drawn(outs * width);
      std::vector<float> together(size_t(rows * outs)), alone(size_t(rows * outs));
      products(GetParam()).times_transposed(x.data(), w.data(), together.data(), rows, outs, width, outs);
      for (int64_t r = 0; r < rows; ++r)
        products(GetParam())
            .times_transposed(x.data() + r * width, w.data(), alone.data() + r * outs, 1, outs, width, outs);
      EXPECT_EQ(together, alone) << width << " wide, " << outs << " columns";

      // Split at blocks of columns, as between threads.
      for (int64_t begin = 0; begin < outs; begin += columns_per_block)
        products(GetParam())
            .times_transposed(x.data(), w.data() + begin * width, alone.data() + begin, rows,
                              std::min(columns_per_block, outs - begin), width, outs);
      EXPECT_EQ(together, alone) << width << " wide, " << outs << " columns, cut";
    }
}

TEST_P(RowProducts, WithWeightsInBf16HaveTheBitsOfTheSameWeightsInFp32) {
  for (const int64_t width : widths)
    for (const int64_t outs : columns)
      for (const int64_t rows : {1, 3, 6}) {
        const auto x = drawn(rows * width);
        std::vector<float> w = drawn(outs * width), wanted(size_t(rows * outs)), found(size_t(rows * outs));
        std::vector<Bf16> halves;
        for (float& weight : w) {
          const uint32_t bits = std::bit_cast<uint32_t>(weight) & 0xffff0000U;
          weight = std::bit_cast<float>(bits);
          halves.push_back({uint16_t(bits >> 16)});
        }
        products(GetParam()).times_transposed(x.data(), w.data(), wanted.data(), rows, outs, width, outs);
        products(GetParam()).times_transposed_bf16(x.data(), halves.data(), found.data(), rows, outs, width, outs);
        EXPECT_EQ(found, wanted) << width << " wide, " << outs << " columns, " << rows << " rows";
      }
}

/// A cache of `positions` values [width] in pages whose numbers descend.
struct Cache {
  std::vector<float> values;
  std::vector<int64_t> numbers;
  int64_t width;
  Pages pages() const { return {values.data(), numbers.data(), keys_per_panel * width}; }
  /// Where position j has its page.
  size_t page(int64_t j) const { return size_t(numbers[size_t(j / keys_per_panel)] * keys_per_panel * width); }
};

Cache cache_of(std::vector<float> values, int64_t width) {
  Cache cache{std::move(values), {}, width};
  for (auto page = int64_t(cache.values.size()) / keys_per_panel / width - 1; page >= 0; --page)
    cache.numbers.push_back(page);
  return cache;
}

constexpr std::pair<int64_t, int64_t> ranges[] = {{0, 1}, {0, 64}, {3, 65}, {70, 200}};
int64_t positions_for(int64_t end) { return (end + keys_per_panel - 1) / keys_per_panel * keys_per_panel; }

TEST_P(RowProducts, ScoresAreProductsWithTheKeysOfPages) {
  for (const int64_t width : widths)
    for (const auto& [first, end] : ranges) {
      const int64_t positions = positions_for(end);
      const auto x = drawn(width);
      const Cache keys = cache_of(drawn(positions * width), width);
      std::vector<float> scores(size_t(positions) + 1, -7.0F);
      products(GetParam()).score(x.data(), keys.pages(), width, first, end, scores.data());
      for (int64_t j = first; j < end; ++j) {
        double sum = 0, size = 0;
        for (int64_t i = 0; i < width; ++i) {
          const double product =
              double(x[size_t(i)]) * keys.values[keys.page(j) + size_t(i * keys_per_panel + j % keys_per_panel)];
          sum += product;
          size += std::abs(product);
        }
        EXPECT_NEAR(scores[size_t(j)], sum, 1e-6 * size) << width << " wide, key " << j;
      }
      EXPECT_EQ(scores.back(), -7.0F);
    }
}

TEST_P(RowProducts, AMixIsTheWeightedSumOfTheValuesOfPages) {
  for (const int64_t width : widths)
    for (const auto& [first, end] : ranges) {
      const int64_t positions = positions_for(end);
      const auto shares = drawn(positions);
      const Cache values = cache_of(drawn(positions * width), width);
      std::vector<float> y(size_t(width) + 1, -7.0F);
      products(GetParam()).mix(shares.data(), values.pages(), width, first, end, y.data());
      for (int64_t i = 0; i < width; ++i) {
        double sum = 0, size = 0;
        for (int64_t j = first; j < end; ++j) {
          const double product =
              double(shares[size_t(j)]) * values.values[values.page(j) + size_t(j % keys_per_panel * width + i)];
          sum += product;
          size += std::abs(product);
        }
        EXPECT_NEAR(y[size_t(i)], sum, 1e-6 * size) << width << " wide, from " << first << ", at " << i;
      }
      EXPECT_EQ(y.back(), -7.0F);
    }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, RowProducts, testing::Values(Isa::generic, Isa::avx2, Isa::avx512, Isa::amx));

}  // namespace
}  // namespace wmtp::kernels
