// What a row of a batch counts as it is filled, and what is left of a row that is not.
#include "data/torch/batch_rows.hpp"

#include <gmock/gmock.h>

#include "support/tensors.hpp"

namespace wmtp {
namespace {

using test::numbers_of;
using testing::ElementsAre;

/// A document of `prompt` and `answer` tokens at `begin` of a row.
void add(BatchRows& rows, int64_t row, int64_t begin, int64_t prompt, int64_t answer) {
  std::fill_n(rows.kinds(row) + begin, prompt, prompt_kind);
  std::fill_n(rows.kinds(row) + begin + prompt, answer, answer_kind);
  for (int64_t i = 0; i < prompt + answer; ++i) rows.ids(row)[begin + i] = 100 * row + begin + i;
  rows.add_document(row, begin, prompt + answer);
}

BatchRequest request_of(int64_t heads) {
  BatchRequest request;
  request.heads = heads;
  return request;
}

TEST(BatchRows, AreThoseOfTheirRankOnly) {
  const std::vector<int64_t> sequences{10, 11, 12, 13, -1, -1};
  const BatchRequest request = request_of(1);
  BatchRows second(sequences, /*rank=*/1, /*world=*/3, /*S=*/4, request, /*separate=*/false);
  EXPECT_EQ(second.count(), 2);
  EXPECT_THAT(second.micro().sequences, ElementsAre(12, 13));
  EXPECT_THAT(numbers_of(second.micro().batch.sequence), ElementsAre(12, 13));
  BatchRows third(sequences, 2, 3, 4, request, false);
  EXPECT_THAT(third.micro().sequences, ElementsAre(-1, -1));
}

TEST(BatchRows, ThatAreNotFilledArePadding) {
  const BatchRequest request = request_of(2);
  BatchRows rows({7, 8}, 0, 1, 3, request, /*separate=*/true);
  const MicroBatch micro = rows.finish();
  EXPECT_EQ(micro.batch.kind.sum().item<int64_t>(), 0);
  EXPECT_FALSE(micro.targets.any().item<bool>());
  EXPECT_THAT(numbers_of(micro.documents.begins), ElementsAre(0, 1, 2, 0, 1, 2)) << "each position is alone";
  EXPECT_THAT(micro.windows, ElementsAre(-1, -1));
  EXPECT_THAT(micro.bins, ElementsAre(-1, -1));
  EXPECT_THAT(numbers_of(micro.batch.correct), ElementsAre(-1, -1));
  EXPECT_THAT(numbers_of(micro.batch.partner), ElementsAre(-1, -1));
  EXPECT_THAT(micro.counts, ElementsAre(0, 0));
  EXPECT_EQ(micro.tokens + micro.answer_tokens + micro.attended_keys + micro.pairs, 0);
}

TEST(BatchRows, CountTheTargetsOfEveryHead) {
  const BatchRequest request = request_of(4);
  BatchRows rows({0, 1}, 0, 1, 8, request, false);
  add(rows, 0, 0, /*prompt=*/2, /*answer=*/3);
  add(rows, 1, 0, 1, 1);
  const MicroBatch micro = rows.finish();
  EXPECT_EQ(micro.tokens, 7);
  EXPECT_EQ(micro.answer_tokens, 4);
  EXPECT_EQ(micro.attended_keys, 5 * 5 + 2 * 2);
  // Of the first row, positions 2, 3 and 4 have a source one and two earlier, 3 and 4 three earlier, 4 four earlier.
  EXPECT_THAT(micro.counts, ElementsAre(3 + 1, 3, 2, 1));
  for (int64_t k = 1; k <= 4; ++k)
    EXPECT_EQ(micro.sources(k).sum().item<int64_t>(), micro.counts[size_t(k - 1)]) << "head " << k;
  EXPECT_THAT(numbers_of(micro.targets[0]), ElementsAre(0, 0, 1, 1, 1, 0, 0, 0));
}

TEST(BatchRows, CountTheTargetsAtTheOffsetsOfTheHeads) {
  BatchRequest request = request_of(3);
  request.offsets = {1, 3, 7};
  EXPECT_EQ(request.last_offset(), 7);
  BatchRows rows({0, 1}, 0, 1, 12, request, /*separate=*/true);
  add(rows, 0, 0, /*prompt=*/2, /*answer=*/3);
  add(rows, 0, 5, /*prompt=*/1, /*answer=*/6);
  add(rows, 1, 0, 1, 8);
  const MicroBatch micro = rows.finish();
  EXPECT_THAT(micro.counts, ElementsAre(3 + 6 + 8, 2 + 4 + 6, 0 + 0 + 2));
  for (int64_t k = 1; k <= 3; ++k)
    EXPECT_EQ(micro.sources(k).sum().item<int64_t>(), micro.counts[size_t(k - 1)]) << "head " << k;
  EXPECT_TRUE(at::equal(micro.sources(2), micro.sources_of(3)));
  request.prompts = true;
  BatchRows prompted({0}, 0, 1, 12, request, false);
  add(prompted, 0, 0, /*prompt=*/7, /*answer=*/2);
  EXPECT_THAT(prompted.finish().counts, ElementsAre(8, 6, 2));
}

TEST(BatchRows, CountPromptsAsTargetsOnRequest) {
  BatchRequest request = request_of(3);
  request.prompts = true;
  BatchRows rows({0}, 0, 1, 8, request, false);
  add(rows, 0, 0, /*prompt=*/4, /*answer=*/1);
  const MicroBatch micro = rows.finish();
  EXPECT_THAT(micro.counts, ElementsAre(4, 3, 2));
  EXPECT_THAT(numbers_of(micro.targets[0]), ElementsAre(1, 1, 1, 1, 1, 0, 0, 0));
  EXPECT_EQ(micro.answer_tokens, 1);
}

TEST(BatchRows, SeparateTheDocumentsOfARow) {
  const BatchRequest request = request_of(2);
  BatchRows rows({0}, 0, 1, 7, request, /*separate=*/true);
  add(rows, 0, 0, 0, 3);
  add(rows, 0, 3, 1, 2);
  const MicroBatch micro = rows.finish();
  EXPECT_THAT(numbers_of(micro.documents.begins), ElementsAre(0, 0, 0, 3, 3, 3, 6));
  EXPECT_THAT(micro.counts, ElementsAre(2 + 2, 1 + 1)) << "no source has its target in another document";
  EXPECT_THAT(numbers_of(micro.sources(1)), ElementsAre(1, 1, 0, 1, 1, 0, 0));
  EXPECT_THAT(numbers_of(micro.sources(2)), ElementsAre(1, 0, 0, 1, 0, 0, 0));
  EXPECT_EQ(micro.attended_keys, 3 * 3 + 3 * 3);
}

TEST(BatchRows, HaveTheEndsOfTheirDocumentsForADevice) {
  const BatchRequest request = request_of(1);
  BatchRows rows({0, 1}, 0, 1, 7, request, /*separate=*/true);
  add(rows, 0, 0, 0, 3);
  add(rows, 0, 3, 0, 1);
  add(rows, 1, 0, 0, 7);
  const MicroBatch micro = rows.finish();
  EXPECT_FALSE(micro.documents.ends.defined()) << "the CPU reads where they begin";
  const at::Tensor ends = document_ends(micro.documents.begins, micro.batch.kind);
  EXPECT_THAT(numbers_of(ends), ElementsAre(0, 3, 4, 7, 14)) << "three positions of padding are one document";
  const Documents both = documents_in(at::cat({micro.documents.begins.flatten(), ends}), 2, 7);
  EXPECT_TRUE(both.begins.equal(micro.documents.begins) && both.ends.equal(ends));
}

TEST(BatchRows, CountNoKeyBeyondTheWindowOfTheAttention) {
  BatchRequest request = request_of(1);
  request.window = 3;
  BatchRows rows({0, 1}, 0, 1, 8, request, false);
  add(rows, 0, 0, 0, 8);
  add(rows, 1, 0, 0, 2);
  EXPECT_EQ(rows.micro().attended_keys, 8 * 3 + 2 * 2);
}

TEST(BatchRows, HaveTheIdsThatWereWritten) {
  const BatchRequest request = request_of(1);
  BatchRows rows({0, 1}, 0, 1, 4, request, false);
  add(rows, 1, 0, 1, 2);
  EXPECT_THAT(numbers_of(rows.finish().batch.tokens), ElementsAre(0, 0, 0, 0, 100, 101, 102, 0));
}

}  // namespace
}  // namespace wmtp
