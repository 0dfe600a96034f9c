// Divided positions on ranks as threads: parts and whole tensors, and attention with its gradients, equal to those of
// one rank.
#include "shard/sequence_split.hpp"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/torch/attention.hpp"
#include "model/torch/ulysses_attention.hpp"
#include "shard/group_exchange.hpp"
#include "support/plain_store.hpp"
#include "support/ranks.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::distance;
using test::on_ranks;

/// The same on every rank.
Tensor numbers(at::IntArrayRef shape, double seed) {
  const int64_t count = c10::multiply_integers(shape);
  return (at::arange(count, at::kDouble) * (0.37 + seed)).sin().to(at::kFloat).view(shape);
}

TEST(SequenceSplit, GivesEachRankOfAGroupAnEqualPart) {
  on_ranks(4, [](Channels& channels) {
    channels.share_sequences(2);
    const SequenceSplit split(channels.same_sequences_group());
    const int64_t in_group = channels.rank() % 2;
    EXPECT_EQ(channels.data_rank(), channels.rank() / 2);
    EXPECT_EQ(channels.data_ranks(), 2);
    const Tensor whole = numbers({3, 8, 5}, channels.data_rank());
    EXPECT_TRUE(at::equal(split.part(whole), whole.narrow(1, 4 * in_group, 4)));
    EXPECT_TRUE(at::equal(split.whole(split.part(whole)), whole));
    EXPECT_EQ(split.local_positions_below(5, 8).count, in_group == 0 ? 4 : 1);
    EXPECT_EQ(split.local_positions_below(2, 8).count, in_group == 0 ? 2 : 0);
    EXPECT_THROW((void)split.local_positions(9), c10::Error);
  });
}

TEST(SequenceSplit, OfOneRankCopiesNothing) {
  SingleRank rank;
  const SequenceSplit split(rank.channels.same_sequences_group());
  const Tensor whole = numbers({2, 7, 3}, 0);
  EXPECT_TRUE(split.part(whole).is_same(whole));
  EXPECT_TRUE(split.whole(whole).is_same(whole));
}

TEST(SequenceGroups, CountValuesOfADataRankOnce) {
  on_ranks(4, [](Channels& channels) {
    channels.share_sequences(2);
    const Tensor values = at::full({2}, 10.0 + channels.data_rank(), at::kDouble);
    const Tensor all = channels.gather_over_data_ranks(values, "testing");
    EXPECT_TRUE(at::equal(all, at::tensor({10.0, 10.0, 11.0, 11.0}, at::kDouble).view({2, 2})));
    channels.share_sequences(4);
    EXPECT_EQ(channels.gather_over_data_ranks(values, "testing").size(0), 1);
    channels.share_sequences(1);
    EXPECT_EQ(channels.gather_over_data_ranks(values, "testing").size(0), 4);
  });
}

/// Attention of query, key, value, and the gradients of all three.
std::vector<Tensor> attended(const std::vector<Tensor>& inputs, const Tensor& d_out,
                             const std::function<Tensor(const std::vector<Tensor>&)>& attention) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach().clone().requires_grad_(true));
  const at::AutoGradMode grad(true);
  const Tensor out = attention(leaves);
  std::vector<Tensor> results{out.detach()};
  for (const Tensor& gradient : torch::autograd::grad({out}, leaves, {d_out})) results.push_back(gradient);
  return results;
}

void expect_like_one_rank(int ranks, int64_t B, int64_t window, at::ScalarType type, double tolerance,
                          bool separate = false) {
  on_ranks(ranks, [&](Channels& channels) {
    channels.share_sequences(ranks);
    const SequenceSplit split(channels.same_sequences_group());
    const GroupExchange exchange(channels.attention_group(), "heads for positions");
    constexpr int64_t S = 40, H = 8, K = 4, D = 6;
    const std::vector<Tensor> inputs{numbers({B, S, H, D}, 1).to(type), numbers({B, S, K, D}, 2).to(type),
                                     numbers({B, S, K, D}, 3).to(type)};
    const Tensor d_out = numbers({B, S, H * D}, 4).to(type);
    Documents documents;  // of 7 tokens, across the ranks' borders
    if (separate)
      documents.begins = (at::arange(S, at::kInt) / 7).floor().mul(7).to(at::kInt).expand({B, S}).contiguous();
    const auto wanted = attended(inputs, d_out, [&](const std::vector<Tensor>& x) {
      return causal_attention(x[0], x[1], x[2], window, documents);
    });
    std::vector<Tensor> parts;
    for (const Tensor& input : inputs) parts.push_back(split.part(input));
    const auto found = attended(parts, split.part(d_out), [&](const std::vector<Tensor>& x) {
      return ulysses_attention(x[0], x[1], x[2], window, documents, exchange);
    });
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(found[i].sizes(), split.part(wanted[i]).sizes());
      EXPECT_LE(distance(found[i], split.part(wanted[i])), tolerance) << i << " of rank " << channels.rank();
    }
  });
}

// The gradients of a key are summed over parts of the queries, whose number depends on the heads of a rank.
TEST(UlyssesAttention, EqualsThatOfOneRank) {
  for (const int ranks : {2, 4})
    for (const int64_t B : {1, 3}) expect_like_one_rank(ranks, B, 0, at::kFloat, 1e-6);
}

TEST(UlyssesAttention, EqualsThatOfOneRankWithASlidingWindow) { expect_like_one_rank(2, 2, 7, at::kFloat, 1e-6); }

TEST(UlyssesAttention, EqualsThatOfOneRankWithinDocuments) { expect_like_one_rank(2, 2, 0, at::kFloat, 1e-6, true); }

TEST(UlyssesAttention, EqualsThatOfOneRankInBf16) { expect_like_one_rank(4, 2, 0, at::kBFloat16, 1e-2); }

}  // namespace
}  // namespace wmtp
