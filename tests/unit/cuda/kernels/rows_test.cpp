// The CUDA kernels, compiled for the CPU, against the CPU's own kernels: in fp32 to rounding, in bf16 and fp16 to one
// unit in the last place; bitwise the same for any order of a block's threads.
#define WMTP_ISA reference
#include "model/torch/kernels/rows_impl.hpp"
#include "on_cpu.hpp"
//
#include "cuda/kernels/rows.cuh"
//
#include <gtest/gtest.h>

namespace wmtp::cuda {
namespace {

namespace reference = kernels::reference;
using on_cpu::launch;
using on_cpu::Order;

constexpr Order orders[] = {Order::ascending, Order::descending, Order::shuffled};
constexpr int max_packs = 4;

/// Numbers around 0 that differ from row to row and call to call.
std::vector<float> numbers(size_t count, float spread = 1) {
  static std::mt19937 random(1);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

template <class T>
std::vector<T> rounded(const std::vector<float>& values) {
  std::vector<T> to(values.size());
  for (size_t i = 0; i < values.size(); ++i) round_to(to[i], values[i]);
  return to;
}
template <class T>
std::vector<float> widened(const std::vector<T>& values) {
  std::vector<float> to(values.size());
  for (size_t i = 0; i < values.size(); ++i) to[i] = as_float(values[i]);
  return to;
}

/// Relative to a number's size, at least 1: the last place of T, or a few roundings of fp32.
template <class T>
constexpr float last_place = std::is_same_v<T, float>    ? 4e-6f
                             : std::is_same_v<T, __half> ? 1.0f / 1024
                                                         : 1.0f / 128;

template <class T>
void expect_close(const std::vector<T>& found, const std::vector<float>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(as_float(found[i]), wanted[i], last_place<T> * std::max(1.0f, std::abs(wanted[i]))) << "at " << i;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Calls run(order) for each order; all its results must be bitwise the same.
template <class Run>
auto same_in_all_orders(Run run) {
  const auto first = run(Order::ascending);
  for (const Order order : orders) {
    const auto again = run(order);
    for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(same_bits(first[i], again[i]));
  }
  return first;
}

unsigned blocks_for(size_t count, int size) {
  return unsigned((count + size_t(threads_per_block * size) - 1) / size_t(threads_per_block * size));
}

template <class T>
class Rows : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(Rows, Types);

template <class T, int packs>
void check_norm(int64_t rows, int64_t width) {
  const auto x = rounded<T>(numbers(size_t(rows * width))), w = rounded<T>(numbers(size_t(width)));
  const auto dy = rounded<T>(numbers(size_t(rows * width)));
  std::vector<float> y(x.size()), scale((size_t(rows))), dx(x.size()), dw(w.size());
  const auto wide_x = widened(x), wide_w = widened(w), wide_dy = widened(dy);
  reference::rms_norm<float>(wide_x.data(), wide_w.data(), 1e-5f, y.data(), scale.data(), rows, width);
  reference::rms_norm_backward<float>(wide_dy.data(), wide_x.data(), wide_w.data(), scale.data(), dx.data(), dw.data(),
                                      rows, width);
  std::vector<float> scale_found(scale.size());
  const auto forward = same_in_all_orders([&](Order order) {
    std::vector<T> to(x.size());
    launch(order, unsigned(rows), threads_per_block, rms_norm<T, packs>, x.data(), w.data(), 1e-5f, to.data(),
           scale_found.data(), width);
    return std::vector<std::vector<T>>{to};
  });
  expect_close(forward[0], y);
  expect_close(scale_found, scale);

  constexpr unsigned blocks = 2;
  std::vector<float> parts(blocks * size_t(width));
  const auto backward = same_in_all_orders([&](Order order) {
    std::vector<T> to(x.size());
    std::fill(parts.begin(), parts.end(), NAN);
    launch(order, blocks, threads_per_block, rms_norm_backward<T, packs>, dy.data(), x.data(), w.data(),
           scale_found.data(), to.data(), parts.data(), rows, width);
    return std::vector<std::vector<T>>{to};
  });
  expect_close(backward[0], dx);
  std::vector<float> sum(size_t(width), 0.0f);
  for (size_t i = 0; i < parts.size(); ++i) sum[i % size_t(width)] += parts[i];
  for (size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i], dw[i], 1e-4f) << "at " << i;
}

TYPED_TEST(Rows, AreNormedAndDifferentiated) {
  constexpr int size = pack_size<TypeParam>, whole = threads_per_block * size;
  check_norm<TypeParam, 1>(3, size);
  check_norm<TypeParam, 1>(3, whole - size);
  check_norm<TypeParam, 2>(2, whole + 3 * size);
  check_norm<TypeParam, max_packs>(2, max_packs * whole);
}

template <class T, int size>
void check_swiglu(size_t count) {
  const auto gate = rounded<T>(numbers(count, 4)), up = rounded<T>(numbers(count)), dy = rounded<T>(numbers(count));
  std::vector<float> y(count), d_gate(count), d_up(count);
  reference::swiglu<float>(widened(gate).data(), widened(up).data(), y.data(), int64_t(count));
  reference::swiglu_backward<float>(widened(dy).data(), widened(gate).data(), widened(up).data(), d_gate.data(),
                                    d_up.data(), int64_t(count));
  std::vector<T> y_found(count), d_gate_found(count), d_up_found(count);
  launch(Order::ascending, blocks_for(count, size), threads_per_block, swiglu<T, size>, gate.data(), up.data(),
         y_found.data(), int64_t(count));
  launch(Order::ascending, blocks_for(count, size), threads_per_block, swiglu_backward<T, size>, dy.data(), gate.data(),
         up.data(), d_gate_found.data(), d_up_found.data(), int64_t(count));
  expect_close(y_found, y);
  expect_close(d_gate_found, d_gate);
  expect_close(d_up_found, d_up);
}

TYPED_TEST(Rows, AreGatedAndDifferentiated) {
  constexpr int size = pack_size<TypeParam>;
  check_swiglu<TypeParam, size>(size_t(size * 300));
  check_swiglu<TypeParam, 1>(301);
}

template <class T, int size>
void check_rotate(int64_t heads, int64_t width) {
  constexpr int64_t positions = 5, tokens = 2 * positions;
  const auto x = rounded<T>(numbers(size_t(tokens * heads * width)));
  const auto table = numbers(size_t(positions * width));
  for (const float direction : {1.0f, -1.0f}) {
    std::vector<float> wanted(x.size());
    const auto wide = widened(x);
    for (int64_t token = 0; token < tokens; ++token)
      reference::rotate<float>(wide.data() + token * heads * width, table.data() + token % positions * width, direction,
                               wanted.data() + token * heads * width, heads, width);
    std::vector<T> found(x.size());
    launch(Order::ascending, blocks_for(x.size(), size), threads_per_block, rotate<T, size>, x.data(), table.data(),
           direction, found.data(), int64_t(x.size()), heads, width, positions);
    expect_close(found, wanted);
  }
}

TYPED_TEST(Rows, AreRotatedByTheirPosition) {
  check_rotate<TypeParam, pack_size<TypeParam>>(3, 4 * pack_size<TypeParam>);
  check_rotate<TypeParam, 2>(3, 6);
}

template <class T, int size>
void check_cross_entropy(int64_t width, float spread, float offset, const std::vector<int64_t>& targets) {
  constexpr int64_t rows = 3;
  auto values = numbers(size_t(rows * width), spread);
  for (float& value : values) value += offset;
  const auto logits = rounded<T>(values);
  const std::vector<float> coefficients{0.5f, 0.0f, 2.0f};
  std::vector<float> wanted[4];
  for (auto& part : wanted) part.resize(rows);
  auto gradient = widened(logits);
  reference::cross_entropy<float>(gradient.data(), targets.data(), wanted[0].data(), wanted[1].data(), wanted[2].data(),
                                  wanted[3].data(), rows, width);
  reference::cross_entropy_backward<float>(gradient.data(), targets.data(), wanted[1].data(), coefficients.data(), rows,
                                           width);
  const auto found = same_in_all_orders([&](Order order) {
    std::vector<std::vector<float>> parts(4, std::vector<float>(rows, NAN));
    launch(order, unsigned(rows), threads_per_block, cross_entropy<T, size>, logits.data(), targets.data(),
           parts[0].data(), parts[1].data(), parts[2].data(), parts[3].data(), width);
    return parts;
  });
  for (size_t part = 0; part < 3; ++part)
    for (size_t row = 0; row < size_t(rows); ++row)
      if (std::isinf(wanted[part][row]))
        EXPECT_EQ(found[part][row], wanted[part][row]);
      else
        EXPECT_NEAR(found[part][row], wanted[part][row], 2e-5f * std::max(1.0f, std::abs(wanted[part][row])))
            << "part " << part << " of row " << row;
  EXPECT_EQ(found[3], wanted[3]);

  auto in_place = logits;
  launch(Order::ascending, unsigned(rows), threads_per_block, cross_entropy_backward<T, size>, in_place.data(),
         targets.data(), found[1].data(), coefficients.data(), width);
  expect_close(in_place, gradient);

  std::vector<float> loss(rows), log_sum(rows);
  float* const none = nullptr;
  launch(Order::ascending, unsigned(rows), threads_per_block, cross_entropy<T, size>, logits.data(), targets.data(),
         loss.data(), log_sum.data(), none, none, width);
  EXPECT_EQ(loss, found[0]);
}

template <class T, int size>
void check_cross_entropy(int64_t width, float spread, float offset) {
  check_cross_entropy<T, size>(width, spread, offset, {0, width - 1, width / 2});
}

/// Which are columns of other ranks.
TYPED_TEST(Rows, HaveTheirCrossEntropyAndItsGradientWithoutTheirTargets) {
  constexpr int size = pack_size<TypeParam>;
  check_cross_entropy<TypeParam, size>(size * 700, 1, 0, {-1, size * 700, int64_t{1} << 40});
}

TYPED_TEST(Rows, HaveTheirCrossEntropyAndItsGradient) {
  constexpr int size = pack_size<TypeParam>;
  check_cross_entropy<TypeParam, size>(size * 700, 1, 0);
  check_cross_entropy<TypeParam, 1>(601, 5, -3);
  check_cross_entropy<TypeParam, size>(2 * size, 200, 0);
  check_cross_entropy<TypeParam, 1>(2, 1, 1000);
}

TYPED_TEST(Rows, OfRanksAreSummedInTheirOrder) {
  constexpr int size = pack_size<TypeParam>;
  constexpr int64_t count = size * 300;
  const auto parts = rounded<TypeParam>(numbers(3 * size_t(count), 100));
  auto wanted = numbers(size_t(count)), found = wanted;
  const auto wide = widened(parts);
  for (int part = 0; part < 3; ++part)
    reference::accumulate<float>(wanted.data(), wide.data() + part * count, part == 0, count);
  launch(Order::ascending, blocks_for(size_t(count), size), threads_per_block, sum_of_parts<TypeParam, size>,
         parts.data(), 3, found.data(), count);
  EXPECT_TRUE(same_bits(found, wanted));
}

template <class T>
void check_dropout(int64_t per_sequence, int64_t before = 0) {
  constexpr uint64_t layer = 0x0123456789ABCDEFu, step = (1 << 24) - 1;
  constexpr int64_t threshold = int64_t{3} << 30;  // three quarters
  const std::vector<int64_t> sequence{0, 5, (int64_t{1} << 40) - 1};
  const int64_t sequences = int64_t(sequence.size()), blocks = sequences * dropout_blocks(before, per_sequence);
  std::vector<T> found(size_t(sequences * per_sequence));
  launch(Order::ascending, blocks_for(size_t(blocks), 1), threads_per_block, dropout_factors<T>, layer, step,
         sequence.data(), sequences, before, per_sequence, threshold, 4.0f, found.data());
  for (int64_t i = 0; i < int64_t(found.size()); ++i) {
    const int64_t row = i / per_sequence, at = before + i % per_sequence;
    const uint32_t bits = philox(layer, step << 40 ^ uint64_t(sequence[size_t(row)]), uint64_t(at / 4))[size_t(at % 4)];
    ASSERT_EQ(as_float(found[size_t(i)]), bits >> 30 == 3 ? 4.0f : 0.0f) << "at " << i;
  }
}

TYPED_TEST(Rows, AreDroppedByTheirSequenceAndPosition) {
  check_dropout<TypeParam>(1024);
  check_dropout<TypeParam>(35);  // the last block of a sequence is incomplete
  check_dropout<TypeParam>(1024, 1024);
  check_dropout<TypeParam>(35, 35);  // so is the first
}

// Faults that the fibers must detect.

void sum_without_barrier(const float* x, float* sum) {
  static float shared[threads_per_block];
  shared[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x == 0) {
    *sum = 0;
    for (const float value : shared) *sum += value;
  }
}

TEST(Fibers, GiveOtherResultsInAnotherOrderWhereABarrierIsMissing) {
  const std::vector<float> ones(threads_per_block, 1.0f);
  float ascending = 0, descending = 0;
  launch(Order::ascending, 1, threads_per_block, sum_without_barrier, ones.data(), &ascending);
  launch(Order::descending, 1, threads_per_block, sum_without_barrier, ones.data(), &descending);
  EXPECT_EQ(ascending, 1) << "thread 0 reads what the others have not written yet";
  EXPECT_EQ(descending, threads_per_block);
}

TEST(Fibers, RefuseAShuffleThatNotAllThreadsOfAWarpReach) {
  const auto kernel = [] {
    if (threadIdx.x < 40) __shfl_xor_sync(full_warp_mask, 1.0f, 1);
  };
  EXPECT_THROW(launch(Order::ascending, 1, threads_per_block, kernel), std::logic_error);
}

TEST(Fibers, RefuseABarrierThatNotAllThreadsReach) {
  const auto kernel = [] {
    if (threadIdx.x != 7) __syncthreads();
  };
  EXPECT_THROW(launch(Order::ascending, 1, threads_per_block, kernel), std::logic_error);
}

}  // namespace
}  // namespace wmtp::cuda
