// Products against the same in fp64, and which of oneDNN's kernels they take.
#include "model/torch/matrix_product.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>

#include "model/torch/product_path.hpp"

namespace wmtp {
namespace {

using at::Tensor;

/// [rows, columns], contiguous or as a transposed view.
Tensor matrix(int64_t rows, int64_t columns, bool is_transposed) {
  return is_transposed ? at::randn({columns, rows}).t() : at::randn({rows, columns});
}

/// The largest error relative to the sum of the products' magnitudes. An fp32 sum split into parts of up to some
/// hundred products stays within a few roundings of 6e-8.
double error_of(const Tensor& found, const Tensor& a, const Tensor& b, const Tensor& before = {}) {
  Tensor wanted = at::mm(a.to(at::kDouble), b.to(at::kDouble)), size = at::mm(a.abs(), b.abs());
  if (before.defined()) {
    wanted = wanted + before;
    size = size + before.abs();
  }
  return ((found - wanted).abs() / size).max().item<double>();
}
constexpr double rounding = 1e-6;

// On both sides of oneDNN's limits, with sizes that are no multiple of a vector, and long sums.
constexpr int64_t shapes[][3] = {{1, 1, 1},      {192, 256, 40},  {193, 256, 33},  {769, 65, 1},      {768, 128, 40},
                                 {96, 700, 256}, {16, 5000, 100}, {4100, 17, 129}, {1020, 192, 4096}, {70, 8200, 40}};

TEST(MatrixProduct, EqualsFp64ForContiguousAndTransposedMatrices) {
  at::manual_seed(1);
  for (const auto& [m, k, n] : shapes)
    for (const bool a_turned : {false, true})
      for (const bool b_turned : {false, true}) {
        const Tensor a = matrix(m, k, a_turned), b = matrix(k, n, b_turned);
        EXPECT_LT(error_of(product(a, b), a, b), rounding) << m << " x " << k << " x " << n;
        Tensor to = at::randn({m, n});
        const Tensor before = to.clone();
        product_into(to, a, b, /*add=*/true);
        EXPECT_LT(error_of(to, a, b, before), rounding) << "added, " << m << " x " << k << " x " << n;
        product_into(to, a, b);
        EXPECT_TRUE(at::equal(to, product(a, b))) << "overwriting previous values";
      }
}

TEST(MatrixProduct, HasTheSameBitsEveryTime) {
  const Tensor a = at::randn({500, 300}), b = at::randn({300, 200});
  EXPECT_TRUE(at::equal(product(a, b), product(a, b)));
}

/// A resumed run has the same numbers at other addresses.
TEST(MatrixProduct, OfBf16HasTheSameBitsAtAnyAddress) {
  at::manual_seed(4);
  const Tensor a = at::randn({300, 700}).to(at::kBFloat16), b = at::randn({300, 200}).to(at::kBFloat16);
  const auto at_offset = [](const Tensor& x, int64_t offset) {
    Tensor moved = at::empty({x.numel() + offset}, x.options()).narrow(0, offset, x.numel()).view(x.sizes());
    return moved.copy_(x);
  };
  const at::ScalarType dtype = sums_in_fp32(a) ? at::kFloat : at::kBFloat16;
  Tensor wanted = at::ones({700, 200}, dtype);
  product_into(wanted, a.t(), b, /*add=*/true);
  for (const int64_t offset : {1, 2, 7, 16, 33}) {
    Tensor to = at_offset(at::ones({700, 200}, dtype), offset);
    product_into(to, at_offset(a, offset).t(), at_offset(b, 2 * offset), /*add=*/true);
    EXPECT_TRUE(at::equal(to, wanted)) << offset;
  }
}

TEST(MatrixProduct, OfEmptyMatricesIsZero) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Tensor none = at::empty({5, 0}, dtype), rows = at::empty({0, 7}, dtype);
    Tensor to = at::ones({5, 7}, dtype == at::kBFloat16 && sums_in_fp32(none) ? at::kFloat : dtype);
    product_into(to, none, rows, /*add=*/true);
    EXPECT_TRUE(at::equal(to, at::ones_like(to)));
    product_into(to, none, rows);
    EXPECT_TRUE(at::equal(to, at::zeros_like(to)));
    EXPECT_EQ(product(rows, at::empty({7, 3}, dtype)).sizes(), (at::IntArrayRef{0, 3}));
  }
}

TEST(MatrixProduct, SupportsRowsOfAnyShape) {
  const Tensor x = at::randn({3, 100, 256}), weight = at::randn({64, 256});
  EXPECT_EQ(product_with_rows(x, weight).sizes(), (at::IntArrayRef{3, 100, 64}));
  EXPECT_TRUE(at::allclose(product_with_rows(x, weight), at::linear(x, weight), 1e-4, 1e-4));
  EXPECT_TRUE(at::allclose(product_with_rows(x.to(at::kBFloat16), weight.to(at::kBFloat16)),
                           at::linear(x.to(at::kBFloat16), weight.to(at::kBFloat16)), 1.0 / 128, 1.0 / 16));
}

TEST(ProductPath, DependsOnTheInstructionsAndOnHowFastTheirMakerMadeThem) {
  const ProductInstructions avx2{}, skylake{.avx512 = true, .is_intel = true},
      cooper_lake{.avx512 = true, .bf16 = true, .is_intel = true},
      sapphire_rapids_without_tiles{.avx512 = true, .bf16 = true, .fp16 = true, .is_intel = true},
      sapphire_rapids{.avx512 = true, .bf16 = true, .fp16 = true, .tiles = true, .is_intel = true},
      zen4{.avx512 = true, .bf16 = true};
  const auto paths = [](const ProductInstructions& has) {
    std::string text;
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf})
      text += std::string(text.empty() ? "" : " ") +
              std::array{"aten", "onednn", "widened"}[size_t(product_path(dtype, has))];
    return text;
  };
  EXPECT_EQ(paths(avx2), "aten widened widened");
  EXPECT_EQ(paths(skylake), "onednn widened widened");
  EXPECT_EQ(paths(cooper_lake), "onednn widened widened");
  EXPECT_EQ(paths(sapphire_rapids_without_tiles), "onednn widened aten");
  EXPECT_EQ(paths(sapphire_rapids), "onednn aten aten");
  EXPECT_EQ(paths(zen4), "onednn aten widened");
}

/// In bf16 and fp16, by the path that this process uses: within one rounding of the fp64 result.
/// Returns the number of larger errors.
int products_far_off() {
  at::manual_seed(2);
  int far_off = 0;
  for (const auto& [dtype, roundings] : {std::pair{at::kBFloat16, 1.0 / 256}, std::pair{at::kHalf, 1.0 / 2048}})
    for (const auto& [m, k, n] : shapes)
      for (const bool a_turned : {false, true}) {
        const Tensor a = matrix(m, k, a_turned).to(dtype), b = matrix(k, n, !a_turned).to(dtype);
        const Tensor wanted = at::mm(a.to(at::kDouble), b.to(at::kDouble));
        const double largest = wanted.abs().max().item<double>();
        const auto is_near = [&](const Tensor& found, double allowed) {
          return (found.to(at::kDouble) - wanted).abs().max().item<double>() <= allowed * largest;
        };
        far_off += !is_near(product(a, b), 1.01 * roundings);  // after those of fp32
        if (!sums_in_fp32(a)) continue;
        // k roundings to fp32 in an order that depends on the processor and its threads.
        const double of_sums = std::max(2 * rounding, 2 * std::sqrt(double(k)) * 0x1p-24);
        Tensor to = at::full({m, n}, largest, at::kFloat);
        product_into(to, a, b, /*add=*/true);
        far_off += !is_near(to.to(at::kDouble) - largest, of_sums);
        product_into(to, a, b);
        far_off += !is_near(to, of_sums);
      }
  return far_off;
}

TEST(MatrixProduct, OfHalfPrecisionRoundsOnce) { EXPECT_EQ(products_far_off(), 0); }

TEST(MatrixProductDeathTest, IsWidenedBlockByBlockIfOneDnnMayNotUseTheInstructions) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";  // a new process, which reads the variable
  setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  EXPECT_EXIT(std::exit(!sums_in_fp32(at::empty({1, 1}, at::kBFloat16)) + 2 * products_far_off()),
              testing::ExitedWithCode(0), "");
  unsetenv("ONEDNN_MAX_CPU_ISA");
}

/// Runs products of random shapes with oneDNN's log enabled; prints the product and exits with 1 if one
/// uses its older gemm. Products that MKL computes are not in that log.
[[noreturn]] void end_by_kernels_taken(const std::string& log) {
  if (!std::freopen(log.c_str(), "w", stdout)) _exit(2);
  std::mt19937 random(7);
  std::uniform_real_distribution<double> size(3, 10.5);  // 8 to 1,450
  const auto drawn = [&] { return int64_t(std::exp2(size(random))); };
  for (int i = 0; i < 300; ++i) {
    const int64_t m = drawn(), k = drawn(), n = drawn();
    Tensor to = at::zeros({m, n});
    product_into(to, matrix(m, k, i & 1), matrix(k, n, i & 2), i & 4);
  }
  std::fflush(stdout);
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);)
    if (line.find(",exec,") != std::string::npos && line.find("brg_matmul") == std::string::npos) {
      std::fprintf(stderr, "%s\n", line.c_str());
      _exit(1);
    }
  _exit(0);
}

TEST(MatrixProductDeathTest, NeverUsesOneDnnsOlderGemm) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";  // a new process, which reads the variable
  const std::string log = testing::TempDir() + "onednn-" + std::to_string(getpid()) + ".txt";
  setenv("ONEDNN_VERBOSE", "1", 1);
  EXPECT_EXIT(end_by_kernels_taken(log), testing::ExitedWithCode(0), "");
  unsetenv("ONEDNN_VERBOSE");
  std::remove(log.c_str());
}

}  // namespace
}  // namespace wmtp
