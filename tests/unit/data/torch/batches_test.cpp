// Micro-batches of windows: which rank reads which window of a step, how often one is read in an epoch, and where its
// documents end. (Records: records_test.cpp.)
#include "data/torch/batches.hpp"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "support/tensors.hpp"

namespace wmtp {
namespace {

using Ids = std::vector<int64_t>;
using test::numbers_of;
using testing::ElementsAre;

/// Window i has the ids 10 i, 10 i + 1, and so on. Counts how often each is read.
class NumberedWindows final : public TokenWindows {
 public:
  NumberedWindows(int64_t count, int64_t length) : count_(count), length_(length) {}
  int64_t count() const override { return count_; }
  void read(int64_t index, int64_t* ids) const override {
    ++reads[index];
    for (int64_t i = 0; i < length_; ++i) ids[i] = 10 * index + i;
  }
  mutable std::map<int64_t, int> reads;

 private:
  int64_t count_, length_;
};

std::unique_ptr<BatchSource> source_of(const TokenWindows& windows, DataOrder order, int64_t batch_size,
                                       int64_t S = 4) {
  return window_batches(windows, WindowOrder(/*seed=*/3, windows.count(), order), batch_size, S, {});
}

TEST(WindowBatches, GiveARankItsPartOfAMicroBatch) {
  const NumberedWindows windows(20, 4);
  const auto source = source_of(windows, DataOrder::sequential, /*batch_size=*/2);
  EXPECT_EQ(source->count(), 20);
  const MicroBatch micro = source->training(/*first=*/8, /*rank=*/1, /*world=*/3);
  EXPECT_THAT(micro.sequences, ElementsAre(10, 11));
  EXPECT_THAT(micro.windows, ElementsAre(10, 11));
  EXPECT_THAT(numbers_of(micro.batch.sequence), ElementsAre(10, 11));
  EXPECT_THAT(numbers_of(micro.batch.tokens), ElementsAre(100, 101, 102, 103, 110, 111, 112, 113));
  EXPECT_THAT(windows.reads, ElementsAre(std::pair(10, 1), std::pair(11, 1))) << "and no window of another rank";
}

TEST(WindowBatches, HaveTheSameWindowsForAnyNumberOfRanks) {
  const NumberedWindows windows(24, 4);
  const auto step_of = [&](int64_t world) {
    const auto source = source_of(windows, DataOrder::shuffled, 8 / world);
    Ids step;
    for (int64_t rank = 0; rank < world; ++rank) {
      const MicroBatch micro = source->training(16, rank, world);
      step.insert(step.end(), micro.windows.begin(), micro.windows.end());
    }
    return step;
  };
  const Ids alone = step_of(1);
  EXPECT_EQ(std::set<int64_t>(alone.begin(), alone.end()).size(), 8u);
  for (const int64_t world : {2, 4, 8}) EXPECT_EQ(step_of(world), alone) << world << " ranks";
}

TEST(WindowBatches, ReadEveryWindowOnceInAnEpochAndInAnotherOrderInTheNext) {
  const NumberedWindows windows(12, 4);
  const auto source = source_of(windows, DataOrder::shuffled, 3);
  std::vector<Ids> epochs(2);
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    windows.reads.clear();
    for (int64_t step = 0; step < 2; ++step)
      for (int64_t rank = 0; rank < 2; ++rank)
        for (const int64_t window : source->training(12 * epoch + 6 * step, rank, 2).windows)
          epochs[size_t(epoch)].push_back(window);
    EXPECT_EQ(windows.reads.size(), 12u);
    for (const auto& [window, times] : windows.reads) EXPECT_EQ(times, 1) << "window " << window;
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(WindowBatches, ContinueWithTheNextEpochWithinAMicroBatch) {
  const NumberedWindows windows(3, 4);
  EXPECT_THAT(source_of(windows, DataOrder::sequential, 4)->training(0, 0, 1).windows, ElementsAre(0, 1, 2, 0));
}

TEST(WindowBatches, HoldOneDocumentOfAnswersWithoutAnEndOfText) {
  const NumberedWindows windows(4, 6);
  BatchRequest request;
  request.heads = 3;
  const MicroBatch micro =
      window_batches(windows, WindowOrder(0, 4, DataOrder::sequential), 2, 6, request)->training(0, 0, 1);
  EXPECT_TRUE(micro.batch.kind.eq(answer_kind).all().item<bool>());
  EXPECT_TRUE(micro.targets.all().item<bool>());
  EXPECT_FALSE(micro.documents.defined());
  EXPECT_EQ(micro.tokens, 12);
  EXPECT_EQ(micro.answer_tokens, 12);
  EXPECT_EQ(micro.attended_keys, 2 * 6 * 6);
  EXPECT_THAT(micro.counts, ElementsAre(2 * 5, 2 * 4, 2 * 3));
}

TEST(WindowBatches, EndADocumentWithItsEndOfText) {
  const NumberedWindows windows(1, 7);
  BatchRequest request;
  request.heads = 2;
  const auto documents_with = [&](int64_t end) {
    return window_batches(windows, WindowOrder(0, 1, DataOrder::sequential), 1, 7, request, end)->training(0, 0, 1);
  };
  const MicroBatch two = documents_with(2);
  EXPECT_THAT(numbers_of(two.documents.begins), ElementsAre(0, 0, 0, 3, 3, 3, 3));
  EXPECT_THAT(two.counts, ElementsAre(2 + 3, 1 + 2));
  EXPECT_EQ(two.attended_keys, 3 * 3 + 4 * 4);
  EXPECT_THAT(numbers_of(two.sources(1)), ElementsAre(1, 1, 0, 1, 1, 1, 0)) << "no target behind the end of a text";
  EXPECT_THAT(numbers_of(documents_with(0).documents.begins), ElementsAre(0, 1, 1, 1, 1, 1, 1)) << "the end alone";
  EXPECT_THAT(numbers_of(documents_with(6).documents.begins), ElementsAre(0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(numbers_of(documents_with(99).documents.begins), ElementsAre(0, 0, 0, 0, 0, 0, 0)) << "none ends here";
}

TEST(WindowBatches, ReadEachHeldOutWindowOnceWithPaddingBehindTheLast) {
  const NumberedWindows windows(5, 4);
  const auto source = source_of(windows, DataOrder::sequential, 2);
  Ids all;
  int64_t tokens = 0;
  for (int64_t first = 0; first < 5; first += 6)
    for (int64_t rank = 0; rank < 3; ++rank) {
      const MicroBatch micro = source->held_out(first, /*end=*/5, rank, 3);
      all.insert(all.end(), micro.windows.begin(), micro.windows.end());
      tokens += micro.tokens;
    }
  EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, -1));
  EXPECT_EQ(tokens, 5 * 4);
  const MicroBatch last = source->held_out(0, 5, 2, 3);
  EXPECT_THAT(last.sequences, ElementsAre(4, -1));
  EXPECT_THAT(numbers_of(last.targets), ElementsAre(1, 1, 1, 1, 0, 0, 0, 0));
  EXPECT_THAT(windows.reads, testing::SizeIs(5)) << "padding reads nothing";
}

TEST(ValidSources, HaveTheirTargetAHeadLaterInTheSameDocument) {
  const at::Tensor targets = at::tensor(Ids{0, 1, 1, 0, 1}).to(at::kBool).view({1, 5});
  EXPECT_THAT(numbers_of(valid_sources(targets, 1)), ElementsAre(1, 1, 0, 1, 0));
  EXPECT_THAT(numbers_of(valid_sources(targets, 3)), ElementsAre(0, 1, 0, 0, 0));
  EXPECT_THAT(numbers_of(valid_sources(targets, 5)), ElementsAre(0, 0, 0, 0, 0)) << "as long as the sequence";
  const at::Tensor documents = at::tensor(Ids{0, 0, 2, 2, 2}).to(at::kInt).view({1, 5});
  EXPECT_THAT(numbers_of(valid_sources(targets, 1, documents)), ElementsAre(1, 0, 0, 1, 0));
}

TEST(Batches, OnTheCpuAreNotCopied) {
  const Batch empty = empty_batch(2, 3, at::kCPU);
  EXPECT_EQ(empty.tokens.sizes(), (at::IntArrayRef{2, 3}));
  EXPECT_EQ(empty.kind.sizes(), (at::IntArrayRef{2, 3}));
  EXPECT_EQ(empty.kind.scalar_type(), at::kByte);
  for (const at::Tensor& of_rows : {empty.sequence, empty.correct, empty.partner})
    EXPECT_EQ(of_rows.sizes(), (at::IntArrayRef{2}));
  EXPECT_TRUE(on_device(empty, at::kCPU).tokens.is_same(empty.tokens));
}

}  // namespace
}  // namespace wmtp
