// Which windows an experiment trains and validates on, in which order. (Records: records_test.cpp.)
#include "data/torch/sources.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "support/data_fixture.hpp"
#include "support/tensors.hpp"

namespace wmtp {
namespace {

using test::numbers_of;
using testing::ElementsAre;

class WindowSources : public DataTest {
 protected:
  /// Six windows of training, "0000000$" to "5555555$", and two of validation; $ is the end of a text.
  Experiment experiment() const {
    for (const std::string digit : {"0", "1", "2", "3", "4", "5"})
      write("text/" + digit, digit + digit + digit + digit + digit + digit + digit);
    write("held_out/6", "6666666");
    write("held_out/7", "7777777");
    Experiment e = text_experiment();
    e.seed = 5;
    e.data.tokenizer.given = true;
    e.data.tokenizer.kind = TokenizerKind::byte;
    e.validation.given = true;
    e.validation.files = {at("held_out/*")};
    return e;
  }
  Prepared open(const Experiment& e) const {
    prepare_data(
        e, folder_ / "cache", [](const std::string&) {}, /*weights=*/false);
    return open_prepared(e, folder_ / "cache", 1, /*weights=*/false);
  }
  /// The first byte of each window, in the order of the source.
  static std::string digits(const BatchSource& source, int64_t count) {
    std::string read;
    for (int64_t position = 0; position < count; ++position)
      read += char(source.fetch({position}, 0, 1).batch.tokens[0][0].item<int64_t>());
    return read;
  }
};

TEST_F(WindowSources, TrainInTheirOrderAndValidateInThatOfTheFiles) {
  Experiment e = experiment();
  const Prepared prepared = open(e);
  e.data.order = DataOrder::sequential;
  EXPECT_EQ(training_batches(e, prepared, {}, 1)->count(), 6);
  EXPECT_EQ(digits(*training_batches(e, prepared, {}, 1), 12), "012345012345");
  e.data.order = DataOrder::shuffled;
  const std::string shuffled = digits(*training_batches(e, prepared, {}, 1), 6);
  EXPECT_NE(shuffled, "012345");
  EXPECT_TRUE(std::is_permutation(shuffled.begin(), shuffled.end(), "012345"));
  EXPECT_EQ(digits(*validation_batches(e, prepared, {}), 2), "67");
  e.seed = 6;
  EXPECT_NE(digits(*training_batches(e, prepared, {}, 1), 6), shuffled);
  EXPECT_EQ(digits(*validation_batches(e, prepared, {}), 2), "67") << "whatever the seed";
}

TEST_F(WindowSources, SeparateDocumentsOnlyWithPacking) {
  Experiment e = experiment();
  e.data.order = DataOrder::sequential;
  e.train.sequence_length = 12;
  const Prepared prepared = open(e);
  EXPECT_FALSE(training_batches(e, prepared, {}, 1)->training(0, 0, 1).documents.defined());
  e.data.packing = true;
  const MicroBatch micro = training_batches(e, prepared, {}, 1)->training(0, 0, 1);
  EXPECT_THAT(numbers_of(micro.documents.begins), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8));
  EXPECT_EQ(micro.batch.tokens[0][7].item<int64_t>(), prepared.tokenizer->end_of_text());
}

TEST_F(WindowSources, HaveNothingToValidateOnIfNothingIsHeldOut) {
  Experiment e = experiment();
  e.validation = {};
  EXPECT_EQ(validation_batches(e, open(e), {}), nullptr);
}

TEST_F(WindowSources, OfRandomIdsAreNeverShuffled) {
  Experiment e = text_experiment();
  e.data.kind = DataKind::random;
  e.data.order = DataOrder::shuffled;
  const Prepared prepared = open_prepared(e, folder_ / "cache", 1, /*weights=*/false);
  const auto source = training_batches(e, prepared, {}, 1);
  EXPECT_EQ(source->count(), std::numeric_limits<int64_t>::max());
  EXPECT_THAT(source->training(40, 0, 1).windows, ElementsAre(40));
}

TEST_F(WindowSources, RefusePairsOfAnswers) {
  const Experiment e = experiment();
  const Prepared prepared = open(e);
  BatchRequest request;
  request.pairs = true;
  for (const bool training : {true, false}) {
    const std::string text = error_of(ExitStatus::usage, [&] {
      training ? training_batches(e, prepared, request, 1) : validation_batches(e, prepared, request);
    });
    EXPECT_TRUE(has(text, "data of kind \"text\" does not have; use kind \"records\"")) << text;
  }
}

}  // namespace
}  // namespace wmtp
