#include "step/previous_losses.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "support/answers.hpp"
#include "support/ranks.hpp"
#include "support/refusal.hpp"

namespace wmtp::test {
namespace {

constexpr int64_t num_windows = 5, length = 6, heads = 2;

/// Sequences of the run in these windows, of S positions; sequence -1: padding.
MicroBatch micro_of(const std::vector<std::pair<int64_t, int64_t>>& sequences_and_windows, int64_t S = length) {
  MicroBatch micro = batch_of(std::vector<Answer>(sequences_and_windows.size()), S, heads);
  for (size_t b = 0; b < sequences_and_windows.size(); ++b)
    std::tie(micro.sequences[b], micro.windows[b]) = sequences_and_windows[b];
  return micro;
}

/// [B,S] that say which head, sequence and position they belong to.
Tensor losses_of(const MicroBatch& micro, int64_t head) {
  const int64_t S = micro.batch.tokens.size(1);
  return at::tensor(micro.sequences, at::kFloat).unsqueeze(1) * 100 + at::arange(S, at::kFloat) + 10000 * head;
}

void keep_all(PreviousLosses& losses, const MicroBatch& micro) {
  for (int64_t head = 1; head <= heads; ++head) losses.keep(micro, head, losses_of(micro, head));
}

void expect_row(const Tensor& row, int64_t sequence, int64_t positions = length) {
  for (int64_t s = 0; s < positions; ++s)
    for (int64_t head = 1; head <= heads; ++head)
      EXPECT_EQ(row[s][head - 1].item<float>(), float(100 * sequence + s + 10000 * head)) << s << ", head " << head;
}

class PreviousLossesTest : public testing::Test {
 protected:
  SingleRank rank_;
  PreviousLosses losses_{num_windows, length, heads, at::kCPU};
};

TEST_F(PreviousLossesTest, AWindowHasTheLossesOfTheStepThatLastReadIt) {
  const MicroBatch first = micro_of({{0, 3}, {1, 1}}), second = micro_of({{2, 4}, {3, 3}});
  EXPECT_TRUE(losses_.of(first).lt(0).all().item<bool>()) << "no step has read them";
  losses_.begin_step();
  keep_all(losses_, first);
  EXPECT_TRUE(losses_.of(first).lt(0).all().item<bool>()) << "a step does not read what it writes";
  losses_.end_step(rank_.channels);
  expect_row(losses_.of(second)[1], 0);
  EXPECT_TRUE(losses_.of(second)[0].lt(0).all().item<bool>());
  losses_.begin_step();
  keep_all(losses_, second);
  losses_.end_step(rank_.channels);
  expect_row(losses_.table()[3], 3);
  expect_row(losses_.table()[1], 1);
  EXPECT_TRUE(losses_.table()[0].lt(0).all().item<bool>());
}

TEST_F(PreviousLossesTest, WhatARepeatedStepFoundAtFirstIsForgotten) {
  const MicroBatch micro = micro_of({{0, 0}});
  losses_.begin_step();
  for (int64_t head = 1; head <= heads; ++head) losses_.keep(micro, head, at::zeros({1, length}));
  losses_.begin_step();
  keep_all(losses_, micro);
  losses_.end_step(rank_.channels);
  expect_row(losses_.table()[0], 0);
}

TEST_F(PreviousLossesTest, RowsOfPaddingAreNeitherReadNorWritten) {
  const MicroBatch micro = micro_of({{-1, -1}, {7, 2}});
  losses_.begin_step();
  keep_all(losses_, micro);
  losses_.end_step(rank_.channels);
  EXPECT_TRUE(losses_.of(micro)[0].lt(0).all().item<bool>());
  expect_row(losses_.of(micro)[1], 7);
  EXPECT_EQ(losses_.table().ge(0).sum().item<int64_t>(), length * heads);
}

TEST_F(PreviousLossesTest, ShorterBatchesHaveTheBeginningOfARow) {
  const MicroBatch shorter = micro_of({{5, 2}}, /*S=*/4);
  losses_.begin_step();
  keep_all(losses_, shorter);
  losses_.end_step(rank_.channels);
  const Tensor found = losses_.of(micro_of({{9, 2}}));
  expect_row(found[0], 5, 4);
  EXPECT_TRUE(found[0].narrow(0, 4, 2).lt(0).all().item<bool>());
}

TEST(PreviousLosses, AWindowThatAStepReadsTwiceHasTheLaterLossOnEveryRank) {
  on_ranks(2, [&](Channels& channels) {
    PreviousLosses losses(num_windows, length, heads, at::kCPU);
    const bool is_first = channels.rank() == 0;
    // Rank 0 reads sequences 0 and 1, then 4 and 5; rank 1 sequences 2 and 3, then 6 and 7.
    const MicroBatch one = micro_of(is_first ? std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {1, 0}}
                                             : std::vector<std::pair<int64_t, int64_t>>{{2, 2}, {3, 1}}),
                     two = micro_of(is_first ? std::vector<std::pair<int64_t, int64_t>>{{4, 3}, {5, 1}}
                                             : std::vector<std::pair<int64_t, int64_t>>{{6, 3}, {7, 4}});
    losses.begin_step();
    keep_all(losses, one);
    keep_all(losses, two);
    losses.end_step(channels);
    for (const auto& [window, sequence] : std::map<int64_t, int64_t>{{0, 1}, {1, 5}, {2, 2}, {3, 6}, {4, 7}})
      expect_row(losses.table()[window], sequence);
  });
}

TEST(PreviousLosses, UnlimitedDataAreRefused) {
  EXPECT_SAYS(refusal(ExitStatus::usage, [] { PreviousLosses(INT64_MAX, length, heads, at::kCPU); }),
              "the data are unlimited");
}

}  // namespace
}  // namespace wmtp::test
