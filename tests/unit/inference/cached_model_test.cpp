// CachedModel against the training's forward pass over the whole text, and against itself with other portions.
#include "inference/cached_model.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.hpp"
#include "inference/row_math.hpp"
#include "support/made_model.hpp"
#include "support/plain_store.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::distance;
using test::MadeModel;
using Logits = CachedModel::Logits;

constexpr int64_t S = 150;  // three pages

Tensor fed_in_portions(CachedModel& model, const std::vector<int64_t>& ids, const std::vector<int64_t>& portions) {
  std::vector<Tensor> logits;
  size_t begin = 0;
  for (size_t i = 0; begin < ids.size(); ++i) {
    const size_t end = std::min(ids.size(), begin + size_t(portions[i % portions.size()]));
    logits.push_back(model.feed({ids.begin() + int64_t(begin), ids.begin() + int64_t(end)}, Logits::all_tokens));
    begin = end;
  }
  return at::cat(logits);
}

/// Compares the positions where the best logit leads by more than rounding; these must be nearly all.
void expect_same_choices(const Tensor& logits, const Tensor& wanted) {
  const Tensor best = std::get<0>(wanted.topk(2, 1));
  const Tensor clear = (best.select(1, 0) - best.select(1, 1)).gt(1e-3);
  EXPECT_GT(clear.sum().item<int64_t>(), wanted.size(0) * 9 / 10);
  for (int64_t s = 0; s < wanted.size(0); ++s) {
    if (!clear[s].item<bool>()) continue;
    EXPECT_EQ(most_likely(logits[s]), wanted[s].argmax().item<int64_t>()) << "position " << s;
  }
}

TEST(CachedModel, LogitsEqualThoseOfAWholeForwardPass) {
  MadeModel made(3, S, 1);
  const auto ids = test::random_ids(S, made.config.vocab_size, 2);
  const Tensor wanted = test::whole_forward(*made, ids)[0];
  CachedModel model(*made, S);
  const Tensor logits = fed_in_portions(model, ids, {1});
  for (int64_t s = 0; s < S; ++s) EXPECT_LT(distance(logits[s], wanted[s]), 5e-6) << "position " << s;
  expect_same_choices(logits, wanted);
}

TEST(CachedModel, SupportsBiasesTiedEmbeddingsAndRopeScaling) {
  ModelConfig shape = test::odd_shape(2);
  shape.qkv_bias = shape.o_bias = shape.tie_word_embeddings = true;
  shape.rope_scaling = RopeScaling{RopeType::llama3, 4, 1, 4, 16};
  MadeModel made(shape, S, 1);
  const auto ids = test::random_ids(S, made.config.vocab_size, 2);
  const Tensor wanted = test::whole_forward(*made, ids)[0];
  CachedModel model(*made, S), portions(*made, S);
  const Tensor logits = fed_in_portions(model, ids, {1});
  for (int64_t s = 0; s < S; ++s) EXPECT_LT(distance(logits[s], wanted[s]), 5e-6) << "position " << s;
  EXPECT_TRUE(at::equal(logits, fed_in_portions(portions, ids, {5, 2, 11})));
}

TEST(CachedModel, SupportsNormsAfterAndJointNormsOfQueriesAndKeys) {
  ModelConfig shape = test::odd_shape(2);
  shape.joint_qk_norm = shape.post_norm = true;
  MadeModel made(shape, S, 1);
  const auto ids = test::random_ids(S, made.config.vocab_size, 2);
  const Tensor wanted = test::whole_forward(*made, ids)[0];
  CachedModel model(*made, S);
  const Tensor logits = fed_in_portions(model, ids, {1, 3});
  for (int64_t s = 0; s < S; ++s) EXPECT_LT(distance(logits[s], wanted[s]), 5e-6) << "position " << s;
}

TEST(CachedModel, SupportsMultipliers) {
  for (const FutureHeads heads : {FutureHeads::parallel, FutureHeads::chained, FutureHeads::shared}) {
    ModelConfig shape = test::odd_shape(2);
    shape.future_heads = heads;
    const auto ids = test::random_ids(S, shape.vocab_size, 2);
    const Tensor plain = test::whole_forward(*MadeModel(shape, S, 1), ids)[0];
    for (double ModelConfig::*const member : {&ModelConfig::embedding_multiplier, &ModelConfig::attention_multiplier,
                                              &ModelConfig::residual_multiplier, &ModelConfig::logits_scaling}) {
      ModelConfig changed = shape;
      changed.*member = 0.7;
      MadeModel made(changed, S, 1);
      const Tensor wanted = test::whole_forward(*made, ids)[0];
      EXPECT_GT(distance(plain, wanted), 1e-2);
      CachedModel model(*made, S);
      const Tensor logits = fed_in_portions(model, ids, {1, 3});
      // logits_scaling makes logits, and so their differences, 1 / 0.7 times as large.
      for (int64_t s = 0; s < S; ++s) EXPECT_LT(distance(logits[s], wanted[s]), 1e-5 / 0.7) << "position " << s;
    }
  }
}

TEST(CachedModel, SupportsBlocksWithoutPositions) {
  ModelConfig shape = test::odd_shape(2);
  const Tensor rotated = test::whole_forward(*MadeModel(shape, S, 1), test::random_ids(S, shape.vocab_size, 2))[0];
  shape.no_rope_layer_interval = 2;
  MadeModel made(shape, S, 1);
  const auto ids = test::random_ids(S, made.config.vocab_size, 2);
  const Tensor wanted = test::whole_forward(*made, ids)[0];
  EXPECT_GT(distance(rotated, wanted), 1e-2);
  CachedModel model(*made, S);
  const Tensor logits = fed_in_portions(model, ids, {1, 3});
  // fp32 sums over up to 150 positions, in another order; the largest difference here is 7e-6.
  for (int64_t s = 0; s < S; ++s) EXPECT_LT(distance(logits[s], wanted[s]), 1e-5) << "position " << s;
}

TEST(CachedModel, SupportsNormedHeadsOfTheirOwnWidthAndAWindow) {
  ModelConfig shape = test::odd_shape(2);
  shape.qk_norm = true;
  shape.head_dim = 2 * head_dim(shape);
  for (const int64_t window : {1, 7, 100}) {
    shape.sliding_window = window;
    MadeModel made(shape, S, 1);
    const auto ids = test::random_ids(S, made.config.vocab_size, 2);
    const Tensor wanted = test::whole_forward(*made, ids)[0];
    CachedModel model(*made, S), portions(*made, S);
    const Tensor logits = fed_in_portions(model, ids, {1});
    for (int64_t s = 0; s < S; ++s) EXPECT_LT(distance(logits[s], wanted[s]), 5e-6) << window << ", position " << s;
    EXPECT_TRUE(at::equal(logits, fed_in_portions(portions, ids, {5, 2, 11}))) << window;
  }
}

TEST(CachedModel, LogitsHaveTheSameBitsForAnyPortions) {
  MadeModel made(2, S, 3);
  const auto ids = test::random_ids(S, made.config.vocab_size, 4);
  CachedModel one(*made, S), other(*made, S), whole(*made, S);
  const Tensor singly = fed_in_portions(one, ids, {1});
  EXPECT_TRUE(at::equal(singly, fed_in_portions(other, ids, {3, 1, 7, 2, 16})));
  EXPECT_TRUE(at::equal(singly, whole.feed(ids, Logits::all_tokens)));
}

TEST(CachedModel, WithWeightsInBf16EqualsAModelWithTheRoundedWeights) {
  for (const bool tied : {false, true}) {
    ModelConfig shape = test::odd_shape(3);
    shape.qkv_bias = true;
    shape.tie_word_embeddings = tied;
    const auto ids = test::random_ids(S, shape.vocab_size, 4);
    auto made = std::make_unique<MadeModel>(shape, S, 3);
    const Tensor of_exact = CachedModel(**made, S).feed(ids, Logits::all_tokens);
    CachedModel halves(**made, S, 1, at::kBFloat16);
    MadeModel other(shape, S, 3);
    test::fill_at_random(*other, 3, /*rounds_matrices=*/true);
    CachedModel rounded(*other, S);
    const Tensor wanted = rounded.feed(ids, Logits::all_tokens);
    const auto proposed = rounded.propose(1);
    made.reset();  // a model in bf16 has its own copy
    EXPECT_TRUE(at::equal(halves.feed(ids, Logits::all_tokens), wanted)) << "tied: " << tied;
    EXPECT_EQ(halves.propose(1), proposed);
    EXPECT_FALSE(at::equal(of_exact, wanted));
  }
}

TEST(CachedModel, ProposalsAreTheSameAfterOneFeedOrSeveral) {
  std::vector<ModelConfig> shapes(4, test::odd_shape(4));
  shapes[1].future_heads = FutureHeads::chained;
  shapes[2].future_heads = FutureHeads::shared;
  shapes[3].future_offsets = {1, 2, 6, 8};
  for (const ModelConfig& shape : shapes) {
    MadeModel made(shape, S, 3);
    const auto ids = test::random_ids(40, shape.vocab_size, 4);
    CachedModel often(*made, S), once(*made, S);
    std::vector<int64_t> last;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      for (CachedModel* model : {&often, &once}) model->feed({ids[i]}, Logits::last_token);
      last = often.propose(ids[i + 1]);
    }
    EXPECT_EQ(once.propose(ids.back()), last);
  }
}

TEST(CachedModel, LogitsHaveTheSameBitsWithOtherTexts) {
  MadeModel made(1, S, 3);
  CachedModel alone(*made, S), together(*made, S, 3);
  const auto a = test::random_ids(S, made.config.vocab_size, 4), b = test::random_ids(S, made.config.vocab_size, 5);
  const auto part = [](const std::vector<int64_t>& ids, int64_t begin, int64_t end) {
    return std::vector<int64_t>(ids.begin() + begin, ids.begin() + end);
  };
  const Tensor of_a = fed_in_portions(alone, a, {1});
  alone.shorten(0);
  const Tensor of_b = fed_in_portions(alone, b, {1});
  EXPECT_TRUE(at::equal(together.feed({{2, part(b, 0, 7)}, {0, part(a, 0, 3)}}), at::stack({of_b[6], of_a[2]})));
  EXPECT_TRUE(at::equal(together.feed({{0, part(a, 3, 4)}, {2, part(b, 7, 12)}}), at::stack({of_a[3], of_b[11]})));
  together.copy_text(2, 1, 9);
  EXPECT_EQ(together.length(1), 9);
  EXPECT_TRUE(at::equal(together.feed({{1, part(b, 9, 10)}, {2, part(b, 12, 13)}}), at::stack({of_b[9], of_b[12]})));
  together.feed({{2, part(b, 13, 140)}});
  for (const int64_t length : {64, 70, 129}) {  // whole pages, and parts of one that both texts write to
    together.copy_text(2, 1, length);
    together.feed({{1, part(a, length, length + 1)}});  // other tokens than text 2 has there
    together.copy_text(2, 1, length);
    EXPECT_TRUE(at::equal(together.feed({{1, part(b, length, length + 2)}})[0], of_b[length + 1])) << length;
  }
  EXPECT_TRUE(at::equal(together.feed({{2, part(b, 140, 141)}})[0], of_b[140]));
}

TEST(CachedModel, RefusesSeveralTextsWithHeadsThatPropose) {
  MadeModel made(2, S, 3);
  CachedModel model(*made, S, 2);
  EXPECT_THROW(model.feed({{0, {1}}, {1, {2}}}), Error);
}

TEST(RowProducts, HaveTheSameBitsOnOneThreadAndOnSeveral) {
  at::manual_seed(3);
  const Tensor x = at::randn({9, 300}), w = at::randn({1003, 300});  // several tasks, and an incomplete last block
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor alone = row_products(x, w);
  at::set_num_threads(3);
  EXPECT_TRUE(at::equal(row_products(x, w), alone));
  at::set_num_threads(threads);
  EXPECT_LT(distance(alone, at::mm(x, w.t())), 1e-6);
}

TEST(CachedModel, LastLogitsEqualTheLastOfAllLogits) {
  MadeModel made(1, S, 5);
  const auto ids = test::random_ids(S, made.config.vocab_size, 6);
  CachedModel one(*made, S), other(*made, S);
  const Tensor last = one.feed(ids, Logits::last_token);
  ASSERT_EQ(last.size(0), 1);
  EXPECT_TRUE(at::equal(last[0], other.feed(ids, Logits::all_tokens)[S - 1]));
}

TEST(CachedModel, ShortenDropsTheTokensAfterTheLength) {
  MadeModel made(3, S, 7);
  const auto ids = test::random_ids(20, made.config.vocab_size, 8), wrong = test::random_ids(9, 43, 9);
  CachedModel straight(*made, S), astray(*made, S);
  const std::vector<int64_t> first{ids.begin(), ids.begin() + 12}, rest{ids.begin() + 12, ids.end()};
  straight.feed(first, Logits::all_tokens);
  const Tensor wanted = straight.feed(rest, Logits::all_tokens);
  astray.feed(first, Logits::all_tokens);
  astray.feed(wrong, Logits::all_tokens);
  astray.shorten(12);
  EXPECT_EQ(astray.length(), 12);
  EXPECT_TRUE(at::equal(astray.feed(rest, Logits::all_tokens), wanted));
}

TEST(CachedModel, ProposesTheMostLikelyTokensOfTheOtherHeads) {
  MadeModel made(4, S, 10);
  const auto ids = test::random_ids(S, made.config.vocab_size, 11);
  const auto wanted = test::whole_forward(*made, ids);
  CachedModel model(*made, S);
  int64_t clear = 0;
  for (int64_t begin = 0; begin < S; begin += 5) {
    model.feed({ids.begin() + begin, ids.begin() + begin + 5}, Logits::last_token);
    model.shorten(begin + 3);  // as after a draft that was partly rejected
    const auto proposed = model.propose(ids[size_t(begin) + 3]);
    ASSERT_EQ(proposed.size(), 3u);
    for (size_t k = 0; k < 3; ++k) {
      const Tensor row = wanted[k + 1][begin + 2], best = std::get<0>(row.topk(2));
      if ((best[0] - best[1]).item<float>() < 1e-3) continue;
      ++clear;
      EXPECT_EQ(proposed[k], row.argmax().item<int64_t>()) << "head " << k + 2 << " at position " << begin + 2;
    }
    model.feed({ids.begin() + begin + 3, ids.begin() + begin + 5}, Logits::last_token);
    model.propose(ids[size_t(begin + 5) % ids.size()]);
  }
  EXPECT_GT(clear, 20);
}

/// With offsets 1, 3 and 7: tokens 2 and 3 ahead are of head 2, tokens 4 to 7 of head 3.
TEST(CachedModel, HeadsThatLeapLookBackForTheTokensBetween) {
  ModelConfig shape = test::odd_shape(3);
  shape.future_offsets = {1, 3, 7};
  MadeModel made(shape, S, 10);
  const auto ids = test::random_ids(S, shape.vocab_size, 11);
  const auto wanted = test::whole_forward(*made, ids);
  CachedModel model(*made, S), once(*made, S);
  int64_t clear = 0;
  for (int64_t begin = 0; begin + 5 < S; begin += 5) {
    model.feed({ids.begin() + begin, ids.begin() + begin + 5}, Logits::last_token);
    model.shorten(begin + 3);  // as after a draft that was partly rejected
    const int64_t last = begin + 2;
    const auto proposed = model.propose(ids[size_t(begin) + 3]);
    ASSERT_EQ(proposed.size(), begin == 0 ? 2u : 6u) << "head 3 looks back over three positions";
    for (size_t i = 0; i < proposed.size(); ++i) {
      const auto ahead = int64_t(i) + 2, head = ahead <= 3 ? int64_t{2} : int64_t{3};
      const int64_t position = last + ahead - (head == 2 ? 3 : 7);
      const Tensor row = wanted[size_t(head - 1)][position], best = std::get<0>(row.topk(2));
      if ((best[0] - best[1]).item<float>() < 1e-3) continue;
      ++clear;
      EXPECT_EQ(proposed[i], row.argmax().item<int64_t>()) << ahead << " ahead of position " << last;
    }
    model.feed({ids.begin() + begin + 3, ids.begin() + begin + 5}, Logits::last_token);
    if (begin % 2 == 0) model.propose(ids[size_t(begin) + 5]);
    once.shorten(0);
    once.feed({ids.begin(), ids.begin() + begin + 3}, Logits::last_token);
    EXPECT_EQ(once.propose(ids[size_t(begin) + 3]), proposed) << begin;
  }
  EXPECT_GT(clear, 100);
  CachedModel shortest(*made, S);
  shortest.feed({ids[0]}, Logits::last_token);
  EXPECT_TRUE(shortest.propose(ids[1]).empty()) << "there is nothing to look back to";
}

TEST(CachedModel, ChainedHeadsProposeFromTheTokensProposedBefore) {
  ModelConfig shape = test::odd_shape(4);
  shape.future_heads = FutureHeads::chained;
  MadeModel made(shape, S, 10);
  const auto ids = test::random_ids(S, made.config.vocab_size, 11);
  CachedModel model(*made, S), portions(*made, S);
  int64_t clear = 0;
  for (int64_t begin = 0; begin + 5 < S; begin += 5) {
    model.feed({ids.begin() + begin, ids.begin() + begin + 5}, Logits::last_token);
    model.shorten(begin + 3);  // as after a draft that was partly rejected
    const auto proposed = model.propose(ids[size_t(begin) + 3]);
    ASSERT_EQ(proposed.size(), 3u);
    std::vector<int64_t> read(ids.begin(), ids.begin() + begin + 4);
    for (size_t k = 0; k < 3; ++k) {
      const Tensor row = test::whole_forward(*made, read)[k + 1][begin + 2], best = std::get<0>(row.topk(2));
      read.push_back(proposed[k]);
      if ((best[0] - best[1]).item<float>() < 1e-3) continue;
      ++clear;
      EXPECT_EQ(proposed[k], row.argmax().item<int64_t>()) << "head " << k + 2 << " at position " << begin + 2;
    }
    model.feed({ids.begin() + begin + 3, ids.begin() + begin + 5}, Logits::last_token);
    model.propose(ids[size_t(begin) + 5]);
  }
  EXPECT_GT(clear, 15);
  const Tensor wanted = test::whole_forward(*made, ids)[0], logits = fed_in_portions(portions, ids, {5, 2, 11});
  for (int64_t s = 0; s < S; ++s) EXPECT_LT(distance(logits[s], wanted[s]), 5e-6) << "position " << s;
}

TEST(CachedModel, ProposesNothingWithOneHeadAndRefusesAfterTheEndOfProposals) {
  MadeModel made(1, S, 12), more(2, S, 12);
  CachedModel one(*made, S), two(*more, S);
  one.feed({1, 2}, Logits::last_token);
  EXPECT_TRUE(one.propose(3).empty());
  two.feed({1, 2}, Logits::last_token);
  two.stop_proposing();
  two.feed({3}, Logits::last_token);
  EXPECT_THROW(two.propose(4), Error);
  two.shorten(0);
  two.feed({1, 2}, Logits::last_token);
  EXPECT_EQ(two.propose(3).size(), 1u) << "for another text";
}

TEST(CachedModel, RefusesMoreTokensThanPositions) {
  MadeModel made(1, 4, 13);
  CachedModel model(*made, 4);
  model.feed({1, 2, 3}, Logits::last_token);
  EXPECT_THROW(model.feed({4, 5}, Logits::last_token), Error);
  EXPECT_THROW(model.feed({}, Logits::last_token), Error);
  model.feed({4}, Logits::last_token);
}

TEST(MostLikely, IsTheLowestOfEqualIdsAndRefusesLogitsThatAreNotFinite) {
  EXPECT_EQ(most_likely(at::tensor({1.0f, 3.0f, 3.0f, 2.0f})), 1);
  EXPECT_EQ(most_likely(at::tensor({-5.0f})), 0);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Tensor logits = at::tensor({1.0f, bad});
    EXPECT_SAYS(test::refusal(ExitStatus::data, [&] { most_likely(logits); }), "logit for id 1") << bad;
  }
}

}  // namespace
}  // namespace wmtp
