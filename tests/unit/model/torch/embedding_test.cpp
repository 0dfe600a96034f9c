// An embedding whose rows ranks divide, on ranks as threads, against the whole one.
#include "model/torch/embedding.hpp"

#include <gtest/gtest.h>

#include "shard/group_exchange.hpp"
#include "support/plain_store.hpp"
#include "support/ranks.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::distance;
using test::on_ranks;
using test::PlainStore;

TEST(Embedding, OfPiecesIsThatOfTheWholeOneExactlyWithItsGradient) {
  constexpr int64_t vocab = 12, dim = 5;
  at::manual_seed(8);
  for (const int ranks : {2, 4})
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const Tensor weight = at::randn({vocab, dim}).to(type);
      const Tensor tokens = at::randint(vocab, {2, 3 * ranks}, at::kLong);  // each rank has three positions
      const Tensor d_embedded = at::randn({2, 3 * ranks, dim}).to(type);
      PlainStore one;
      const WeightHandle whole = one.add(weight);
      const Tensor wanted = embedded(whole, tokens, nullptr);
      EXPECT_TRUE(at::equal(wanted, at::embedding(weight, tokens)));
      add_embedded(whole, vocab, tokens, d_embedded, nullptr);
      on_ranks(ranks, [&](Channels& channels) {
        channels.share_sequences(1, ranks);
        const GroupExchange others(channels.tensor_group(), "tokens for parts of the vocabulary");
        PlainStore store;
        const WeightHandle piece = store.add(weight.chunk(ranks, 0)[size_t(others.rank())].contiguous());
        const auto mine = [&](const Tensor& all) { return all.narrow(1, 3 * others.rank(), 3); };
        EXPECT_TRUE(at::equal(embedded(piece, mine(tokens), &others), mine(wanted)));
        add_embedded(piece, vocab, mine(tokens), mine(d_embedded), &others);
        const Tensor of_piece = one.gradient(whole).chunk(ranks, 0)[size_t(others.rank())];
        EXPECT_LE(distance(store.gradient(piece), of_piece), 1e-14) << "of all tokens, in another order";
      });
    }
}

}  // namespace
}  // namespace wmtp
