// Decoding with drafts, or many texts together, gives the same tokens as plain decoding of one text.
#include "inference/decode.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/made_model.hpp"
#include "support/tiny_training.hpp"

namespace wmtp {
namespace {

using test::MadeModel;
using End = Decoded::End;

constexpr int64_t positions = 150;  // three pages
constexpr Drafts none = Drafts::none, adaptive = Drafts::adaptive, always = Drafts::always;

Decoded decoded(ShardedModel& model, DecodeRequest request, int64_t capacity = positions) {
  CachedModel cached(model, capacity);
  return decode(cached, request);
}

DecodeRequest greedy(const std::vector<int64_t>& prompt, int64_t max_tokens, Drafts drafts) {
  DecodeRequest request;
  request.prompt = prompt;
  request.max_tokens = max_tokens;
  request.drafts = drafts;
  return request;
}

/// Windows of a cycle of 17 tokens from different offsets, which every head learns easily.
class Cycle : public TokenWindows {
 public:
  static int64_t id_at(int64_t i) { return 3 + (i % 17) * 2; }
  int64_t count() const override { return std::numeric_limits<int64_t>::max(); }
  void read(int64_t index, int64_t* ids) const override {
    for (int64_t i = 0; i < 12; ++i) ids[i] = id_at(index * 5 + i);
  }
};

struct Shape {
  int64_t heads;
  FutureHeads kind;
  std::vector<int64_t> offsets = {};
  void set(ModelConfig& model) const {
    model.future_tokens = heads;
    model.future_heads = kind;
    model.future_offsets = offsets;
  }
};
class Decode : public testing::TestWithParam<Shape> {};

TEST_P(Decode, DraftsDoNotChangeARandomModelsText) {
  ModelConfig shape = test::odd_shape(GetParam().heads);
  GetParam().set(shape);
  MadeModel made(shape, positions, 20);
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const auto prompt = test::random_ids(1 + int64_t(seed) % 7, made.config.vocab_size, seed);
    const Decoded plain = decoded(*made, greedy(prompt, 25, none)), fast = decoded(*made, greedy(prompt, 25, always));
    EXPECT_EQ(fast.ids, plain.ids) << "seed " << seed;
    EXPECT_EQ(plain.forwards, 25);
    EXPECT_LE(fast.forwards, 25);
  }
}

TEST_P(Decode, FewPassesDraftWhereNoDraftIsRightAndTheTextIsTheSame) {
  ModelConfig shape = test::odd_shape(GetParam().heads);
  GetParam().set(shape);
  MadeModel made(shape, positions, 20);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const auto prompt = test::random_ids(9, made.config.vocab_size, seed);
    const Decoded plain = decoded(*made, greedy(prompt, 140, none));
    const Decoded tried = decoded(*made, greedy(prompt, 140, adaptive));
    EXPECT_EQ(tried.ids, plain.ids) << "seed " << seed;
    EXPECT_EQ(plain.drafted, 0);
    if (shape.future_tokens > 2) {
      EXPECT_GT(tried.drafted, 0) << "seed " << seed;
      EXPECT_LT(tried.drafted, tried.forwards * 3 / 4) << "seed " << seed;
    }
  }
}

TEST_P(Decode, DraftsDoNotChangeATrainedModelsTextAndSavePasses) {
  const int64_t heads = GetParam().heads;
  Experiment experiment = test::tiny_experiment();
  GetParam().set(experiment.model);
  experiment.model.layers = 1 + heads;
  experiment.model.heads = experiment.model.kv_heads = 2;
  experiment.train.steps = 80;
  experiment.train.batch_size = 4;
  const Cycle windows;
  BatchRequest batches;
  batches.heads = heads;
  batches.offsets = GetParam().offsets;
  const auto source = window_batches(windows, WindowOrder(1, windows.count(), DataOrder::sequential),
                                     experiment.train.batch_size, experiment.train.sequence_length, batches);
  SingleRank rank;
  test::TinyTraining training(experiment, test::baseline(), rank.channels, {.training = source.get()});
  while (training->state().step < experiment.train.steps) training->step();

  int64_t tokens = 0, forwards = 0;
  for (int64_t begin = 0; begin < 17; ++begin) {
    const std::vector<int64_t> prompt{Cycle::id_at(begin), Cycle::id_at(begin + 1)};
    const Decoded plain = decoded(training.model(), greedy(prompt, 10, none), 12);
    const Decoded fast = decoded(training.model(), greedy(prompt, 10, always), 12);
    EXPECT_EQ(fast.ids, plain.ids) << "from " << begin;
    tokens += int64_t(plain.ids.size());
    forwards += fast.forwards;
    EXPECT_EQ(plain.ids[0], Cycle::id_at(begin + 2)) << "the model has not learnt the cycle";
  }
  EXPECT_EQ(tokens, 170);
  // Ten tokens: one from the prompt's pass, then as many per pass as the last head reaches.
  const double fewest = 17 * (1 + std::ceil(9.0 / double(last_offset(experiment.model))));
  EXPECT_LE(double(forwards), 1.2 * fewest) << heads << " heads";
}

constexpr FutureHeads parallel = FutureHeads::parallel, chained = FutureHeads::chained, shared = FutureHeads::shared;
INSTANTIATE_TEST_SUITE_P(All, Decode,
                         testing::Values(Shape{1, parallel}, Shape{2, parallel}, Shape{3, parallel}, Shape{4, parallel},
                                         Shape{2, chained}, Shape{4, chained}, Shape{4, shared},
                                         Shape{3, parallel, {1, 3, 5}}, Shape{2, parallel, {1, 3}}),
                         [](const auto& info) {
                           const Shape& shape = info.param;
                           return to_string(shape.kind) + std::to_string(shape.heads) +
                                  (shape.offsets.empty() ? "" : "leaps");
                         });

/// Every kind of end, repeated prompts, prompts of one token, greedy and sampled.
std::vector<DecodeRequest> mixed_requests(int64_t vocab_size, int64_t end_of_text) {
  std::vector<DecodeRequest> requests;
  for (uint32_t i = 0; i < 9; ++i)
    for (uint32_t sample = 0; sample < 1 + i % 3; ++sample) {
      DecodeRequest request = greedy(test::random_ids(1 + i * 5 % 11, vocab_size, i), 1 + i * 7 % 30, none);
      if (i % 2 == 1) request.sampling = {0.8, 0.9, 3, i, sample};
      if (i % 4 == 2) request.ends = {vocab_size, end_of_text};  // the first is never drawn
      if (i == 8) request.max_tokens = 100;                      // ends at the last position
      if (i == 5) request.on_token = [count = 0](int64_t) mutable { return ++count < 4; };
      requests.push_back(request);
    }
  return requests;
}

TEST(DecodeAll, GivesEachTextAsIfItWereDecodedAlone) {
  ModelConfig windowed = test::odd_shape(1);
  windowed.sliding_window = 5;
  windowed.qkv_bias = true;
  for (const ModelConfig& shape : {test::odd_shape(1), windowed}) {
    MadeModel made(shape, positions, 25);
    const int64_t end_of_text = decoded(*made, greedy({5, 6}, 9, none)).ids[3];
    std::vector<Decoded> alone;
    for (const DecodeRequest& request : mixed_requests(shape.vocab_size, end_of_text))
      alone.push_back(decoded(*made, request));
    for (const int64_t texts : {2, 3, 6, 40}) {
      CachedModel model(*made, positions, texts);
      size_t done = 0;
      const auto requests = mixed_requests(shape.vocab_size, end_of_text);
      const std::vector<Decoded> together = decode_all(model, requests, [&] { ++done; });
      EXPECT_EQ(done, requests.size());
      ASSERT_EQ(together.size(), alone.size());
      for (size_t i = 0; i < alone.size(); ++i) {
        EXPECT_EQ(together[i].ids, alone[i].ids) << "request " << i << ", " << texts << " texts";
        EXPECT_EQ(together[i].end, alone[i].end) << "request " << i;
      }
    }
  }
}

TEST(Decoding, EndsAtEndOfTextEvenWithinADraft) {
  MadeModel made(4, positions, 21);
  const Decoded whole = decoded(*made, greedy({5, 6}, 30, none));
  for (const int64_t end : {0, 3, 4, 7, 12}) {
    const int64_t id = whole.ids[size_t(end)];
    const auto first = std::find(whole.ids.begin(), whole.ids.end(), id);
    for (const Drafts drafts : {none, adaptive, always}) {
      DecodeRequest request = greedy({5, 6}, 30, drafts);
      request.ends = {-1, id};
      const Decoded cut = decoded(*made, request);
      EXPECT_EQ(cut.ids, std::vector<int64_t>(whole.ids.begin(), first + 1));
      EXPECT_EQ(cut.end, End::end_of_text);
    }
  }
}

TEST(Decoding, EndsAfterMaxTokensOrTheLastPosition) {
  MadeModel made(3, positions, 22);
  for (const Drafts drafts : {none, adaptive, always}) {
    const Decoded few = decoded(*made, greedy({1, 2, 3}, 5, drafts));
    EXPECT_EQ(few.ids.size(), 5u);
    EXPECT_EQ(few.end, End::max_tokens);
    // Seven positions: three of the prompt and four more; the last token needs none.
    const Decoded full = decoded(*made, greedy({1, 2, 3}, 50, drafts), 7);
    EXPECT_EQ(full.ids.size(), 5u);
    EXPECT_EQ(full.end, End::positions);
    EXPECT_EQ(full.ids, few.ids);
  }
}

TEST(Decoding, PassesOnEachTokenAndStopsOnRequest) {
  MadeModel made(2, positions, 23);
  std::vector<int64_t> taken;
  DecodeRequest request = greedy({9}, 12, always);
  request.on_token = [&](int64_t id) {
    taken.push_back(id);
    return true;
  };
  EXPECT_EQ(decoded(*made, request).ids, taken);

  for (const Drafts drafts : {none, adaptive, always}) {
    request.drafts = drafts;
    std::vector<int64_t> first;
    request.on_token = [&](int64_t id) {
      first.push_back(id);
      return first.size() < 3;
    };
    const Decoded stopped = decoded(*made, request);
    EXPECT_EQ(stopped.end, End::stopped);
    EXPECT_EQ(stopped.ids, first);
    EXPECT_EQ(first, std::vector<int64_t>(taken.begin(), taken.begin() + 3)) << "drafts: " << int(drafts);
  }
}

TEST(Decoding, ASeedReproducesItsTextAndAnotherSeedGivesAnother) {
  MadeModel made(2, positions, 24);
  const auto drawn = [&](uint64_t seed) {
    DecodeRequest request = greedy({1, 2, 3}, 30, none);
    request.sampling = {1.0, 1.0, seed};
    return decoded(*made, request).ids;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

}  // namespace
}  // namespace wmtp
