#include "model/torch/embedding.hpp"

#include "model/torch/tensor_parallel.hpp"

namespace wmtp {
namespace {

using at::Tensor;

/// The tokens of all ranks as rows of this rank's piece.
struct PieceRows {
  Tensor rows;       ///< [T,B,n], any row where the token is in another piece
  Tensor elsewhere;  ///< [T,B,n,1], whether it is

  PieceRows(const Tensor& tokens, int64_t size, const RankExchange& ranks) {
    const Tensor local = ranks.all_gather(tokens.contiguous()) - ranks.rank() * size;
    rows = local.clamp(0, size - 1);
    elsewhere = local.ne(rows).unsqueeze(-1);
  }
};

}  // namespace

Tensor embedded(const WeightHandle& embedding, const Tensor& tokens, const RankExchange* ranks) {
  const Tensor weight = embedding.weight();
  if (!ranks) return weight.index_select(0, tokens.flatten()).view({tokens.size(0), tokens.size(1), -1});
  const PieceRows all(tokens, weight.size(0), *ranks);
  Tensor parts = weight.index_select(0, all.rows.flatten()).view({ranks->ranks(), tokens.size(0), tokens.size(1), -1});
  return reduce_scatter(parts.masked_fill_(all.elsewhere, 0), *ranks);
}

void add_embedded(const WeightHandle& embedding, int64_t vocab_size, const Tensor& tokens, const Tensor& d_embedded,
                  const RankExchange* ranks) {
  if (!ranks) return embedding.store->add_rows(embedding.index, tokens.flatten(), d_embedded.flatten(0, 1));
  const PieceRows all(tokens, vocab_size / ranks->ranks(), *ranks);
  const Tensor d_all = ranks->all_gather(d_embedded.contiguous()).masked_fill_(all.elsewhere, 0);
  embedding.store->add_rows(embedding.index, all.rows.flatten(), d_all.flatten(0, 2));
}

}  // namespace wmtp
