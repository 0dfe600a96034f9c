#include "model/torch/linear_cross_entropy.hpp"

#include <algorithm>
#include <cmath>

#include "base/round_up.hpp"
#include "memory/allocator.hpp"
#include "memory/meta_device.hpp"
#include "model/torch/matrix_product.hpp"

namespace wmtp {
namespace {

using at::Tensor;

void put(Scores& all, int64_t begin, const Scores& chunk) {
  const auto to = all.parts();
  const auto from = chunk.parts();
  for (size_t i = 0; i < to.size(); ++i)
    if (to[i]->defined()) to[i]->narrow(0, begin, from[i]->size(0)).copy_(*from[i]);
}

constexpr int64_t rows_together = 16;

/// The rows `chosen` of `part`, padded with zeros to a multiple of rows_together, at most `most` rows in total.
Tensor selected(const Tensor& part, const Tensor& chosen, int64_t most) {
  const int64_t count = chosen.size(0);
  const int64_t whole = std::min(round_up(count, rows_together), most);
  std::vector<int64_t> shape = part.sizes().vec();
  shape.front() = whole;
  Tensor rows = at::empty(shape, part.options());
  Tensor first = rows.narrow(0, 0, count);
  at::index_select_out(first, part, 0, chosen);
  rows.narrow(0, count, whole - count).zero_();
  return rows;
}

/// `values` [n], and zeros after them up to `rows`.
Tensor with_zeros(const Tensor& values, int64_t rows) {
  const int64_t count = values.size(0);
  return count == rows ? values : at::constant_pad_nd(values, {0, rows - count});
}

}  // namespace

Tensor rows_with_padding(const Tensor& all, const Tensor& index) {
  return selected(all, index, round_up(index.size(0), rows_together));
}

/// Tokens whose gradients are computed. An undefined `from` means all.
struct LinearCrossEntropy::Chosen {
  Tensor from;         ///< [n] index of each
  Tensor to;           ///< [n] the same, but `spare` for an entry without a token
  int64_t spare = -1;  ///< the index after the last token; -1 if every entry has a token

  bool has_spares() const { return spare >= 0; }

  int64_t count() const { return from.size(0); }
  /// Whether to differentiate all of `rows` instead: to omit fewer than a sixteenth saves less time than it takes to
  /// copy the logits of the others. Those of rows that ranks without so many tokens fill up are such few.
  bool are_all(int64_t rows) const { return !from.defined() || (!has_spares() && 16 * (rows - count()) < rows); }
  Chosen narrow(int64_t begin, int64_t n) const { return {from.narrow(0, begin, n), to.narrow(0, begin, n), spare}; }
  /// Those of `all` [N], at most `most`; 0 for an entry without a token, so that its row contributes nothing.
  Tensor coefficients(const Tensor& all, int64_t most) const {
    const Tensor rows = selected(all, from, most);
    if (has_spares()) rows.narrow(0, 0, count()).masked_fill_(to == spare, 0);
    return rows;
  }
};

LinearCrossEntropy::Chosen LinearCrossEntropy::nonzero(const Tensor& coefficients,
                                                       std::optional<int64_t> at_most) const {
  const int64_t N = coefficients.size(0);
  const at::TensorOptions places = coefficients.options().dtype(at::kLong);
  if (coefficients.is_meta() && (on_cpu(coefficients) || !at_most || split_)) {  // they would be counted
    const Tensor index = at::empty({at_most.value_or(N)}, places);
    return {index, index};
  }
  if (!at_most) {
    const Tensor index = coefficients.nonzero().squeeze(1);
    return {index, index};
  }
  if (*at_most >= N) {
    const Tensor index = at::arange(N, places);
    return {index, index};
  }
  const Tensor index = at::nonzero_static(coefficients, *at_most, /*fill_value=*/N).squeeze(1);
  return {index.clamp_max(N - 1), index, /*spare=*/N};
}

/// Those with a nonzero coefficient; in a step without values, `nonzero_share` of all.
LinearCrossEntropy::Chosen LinearCrossEntropy::found(const Tensor& coefficients, double nonzero_share) const {
  if (!coefficients.is_meta()) return nonzero(coefficients);
  const auto expected = int64_t(std::ceil(nonzero_share * double(coefficients.size(0))));
  const Tensor index = at::empty({expected}, coefficients.options().dtype(at::kLong));
  return {index, index};
}

/// Tokens differentiated in one product: n, of which the last may be padding, or with a VocabularySplit n of each rank.
struct LinearCrossEntropy::Chunk {
  Tensor hidden, targets, logits, log_sum, coefficient;  // [n,D], [n], [n,V], [n] and [n]
  Tensor added = {};                                     // [at most n, V], to the gradient of the logits; or undefined

  /// The chosen tokens, padded with rows of zeros, which contribute nothing.
  Chunk rows(const Chosen& chosen) const {
    const auto of = [&](const Tensor& part) { return selected(part, chosen.from, part.size(0)); };
    return {of(hidden), of(targets), of(logits), of(log_sum), chosen.coefficients(coefficient, coefficient.size(0)),
            {}};
  }
};

template <class OnChunk>
void LinearCrossEntropy::for_each_chunk(int64_t count, int64_t most, bool is_meta, OnChunk on_chunk) const {
  if (!split_) return for_each_part(count, chunk_, is_meta, [&](int64_t begin, int64_t n) { on_chunk(begin, n, n); });
  TORCH_CHECK(count <= most, "a rank has ", count, " tokens, but ", most, " is the most that one has");
  const int64_t of_rank = (chunk_ + split_->ranks() - 1) / split_->ranks();
  // Of a step without values also every chunk: its exchanges count.
  for_each_part(most, of_rank, /*is_meta=*/false, [&](int64_t begin, int64_t n) {
    const int64_t first = std::min(begin, count);
    on_chunk(first, n, std::min(n, count - first));
  });
}

/// The logits of n tokens of each rank, of which this one has `hidden` and `targets`.
LinearCrossEntropy::Chunk LinearCrossEntropy::chunk_of(const Tensor& hidden, const Tensor& targets, int64_t n,
                                                       const Tensor& weight) const {
  Chunk chunk{hidden, targets, {}, {}, {}};
  if (split_) {
    chunk.hidden = split_->gathered(hidden, n);
    chunk.targets = split_->as_columns(split_->gathered(targets, n), weight.size(0));
  }
  chunk.logits = product_with_rows(chunk.hidden, weight);
  return chunk;
}

/// Of `all` [P,D] those of `own` of `count` tokens from `begin`; of the last ones with the padding.
Tensor LinearCrossEntropy::chunk_rows(const Tensor& all, int64_t begin, int64_t own, int64_t count) {
  return all.narrow(0, begin, begin + own == count ? all.size(0) - begin : own);
}

/// Of this rank's tokens, which have these targets.
ScoredLogits LinearCrossEntropy::scored(const Chunk& chunk, const Tensor& targets, ScoreRequest request) const {
  if (!split_) return cross_entropy(chunk.logits.narrow(0, 0, targets.size(0)), targets, request);
  return split_->scored(chunk.logits, chunk.targets, targets, request);
}

/// Completes a chunk by what this rank's tokens have.
void LinearCrossEntropy::complete(Chunk& chunk, Tensor log_sum, Tensor coefficient, int64_t n) const {
  const int64_t rows = split_ ? log_sum.size(0) : chunk.hidden.size(0);
  if (!split_) chunk.targets = with_zeros(chunk.targets, rows);
  chunk.log_sum = with_zeros(log_sum, rows);
  chunk.coefficient = with_zeros(coefficient, rows);
  if (!split_) return;
  const Tensor all = split_->gathered(at::stack({chunk.log_sum, chunk.coefficient}, 1), n);
  chunk.log_sum = all.select(1, 0).contiguous();
  chunk.coefficient = all.select(1, 1).contiguous();
}

/// Of a chunk with n tokens of each rank, `own` of them of this one.
void LinearCrossEntropy::add(Chunk& chunk, const Addition& addition, int64_t begin, int64_t own, int64_t n) const {
  if (!addition) return;
  const Tensor logits = split_ ? split_->of_own_rows(chunk.logits, own) : chunk.logits.narrow(0, 0, own);
  chunk.added = addition(logits, begin, n);
  if (split_) chunk.added = split_->of_own_columns(chunk.added, n);
}

Tensor LinearCrossEntropy::logits(const Tensor& hidden, int64_t n) const {
  const MemoryScope scope(MemoryCategory::logits);
  const Tensor weight = output_.weight();
  if (!split_) return product_with_rows(hidden, weight);
  return split_->of_own_rows(product_with_rows(split_->gathered(hidden, n), weight), hidden.size(0));
}

Scores LinearCrossEntropy::scores(const Tensor& hidden, const Tensor& targets, ScoreRequest request,
                                  int64_t most) const {
  return score(hidden, targets, request, nullptr, most);
}

Scores LinearCrossEntropy::scores(const Tensor& hidden, const Tensor& targets, ScoreRequest request, ScoredChunk& kept,
                                  int64_t most) const {
  return score(hidden, targets, request, &kept, most);
}

Scores LinearCrossEntropy::score(const Tensor& hidden, const Tensor& targets, ScoreRequest request, ScoredChunk* kept,
                                 int64_t most) const {
  const MemoryScope scope(MemoryCategory::logits);
  const int64_t count = targets.size(0), whole = split_ ? most : count;
  const Tensor weight = output_.weight();
  Scores all = empty_scores(count, hidden.options(), request);
  if (kept) {
    *kept = ScoredChunk();
    kept->log_sums_ = at::empty({count}, hidden.options().dtype(at::kFloat));
    kept->most_ = most;
  }
  for_each_chunk(count, most, hidden.is_meta(), [&](int64_t begin, int64_t n, int64_t own) {
    const Tensor own_targets = targets.narrow(0, begin, own);
    const Chunk chunk = chunk_of(chunk_rows(hidden, begin, own, count), own_targets, n, weight);
    const auto [scores, log_sum] = scored(chunk, own_targets, request);
    put(all, begin, scores);
    if (!kept) return;
    kept->log_sums_.narrow(0, begin, own).copy_(log_sum);
    if (n < whole) return;
    kept->logits_ = chunk.logits;
    if (split_) kept->hidden_ = chunk.hidden, kept->targets_ = chunk.targets;
  });
  return all;
}

LinearCrossEntropy::Result LinearCrossEntropy::one_pass(const Tensor& hidden, const Tensor& targets,
                                                        const Coefficients& coefficients, bool sparse,
                                                        ScoreRequest request, int64_t most, const Addition& addition,
                                                        double nonzero_share) const {
  const MemoryScope scope(MemoryCategory::logits);
  const int64_t count = targets.size(0);
  const Tensor weight = output_.weight();
  Result result{empty_scores(count, hidden.options(), request), at::empty_like(hidden)};
  for_each_chunk(count, most, hidden.is_meta(), [&](int64_t begin, int64_t n, int64_t own) {
    const Tensor own_targets = targets.narrow(0, begin, own);
    Chunk chunk = chunk_of(chunk_rows(hidden, begin, own, count), own_targets, n, weight);
    auto [scores, log_sum] = scored(chunk, own_targets, request);
    put(result.scores, begin, scores);
    complete(chunk, std::move(log_sum), own > 0 ? coefficients(scores, begin).contiguous() : scores.losses, n);
    const Chosen chosen = sparse && !addition ? found(chunk.coefficient, nonzero_share) : Chosen();
    add(chunk, addition, begin, own, n);
    differentiate_here(std::move(chunk), chosen, weight, chunk_rows(result.d_hidden, begin, own, count));
  });
  result.d_hidden = result.d_hidden.narrow(0, 0, count);
  return result;
}

/// As differentiate(), to d_hidden of this rank's tokens.
void LinearCrossEntropy::differentiate_here(Chunk chunk, const Chosen& chosen, const Tensor& weight,
                                            Tensor d_hidden) const {
  if (!split_) return differentiate(std::move(chunk), chosen, weight, std::move(d_hidden));
  const Tensor parts = at::empty_like(chunk.hidden);
  differentiate(std::move(chunk), chosen, weight, parts);
  d_hidden.copy_(split_->summed(parts).narrow(0, 0, d_hidden.size(0)));
}

/// Adds to the weight's gradient and writes d_hidden [n,D], with a row more for spare entries.
void LinearCrossEntropy::differentiate(Chunk chunk, const Chosen& chosen, const Tensor& weight, Tensor d_hidden) const {
  const bool all = chosen.are_all(chunk.hidden.size(0));
  if (!all) {
    d_hidden.zero_();
    if (chosen.count() == 0) return;
    chunk = chunk.rows(chosen);
  }
  const Tensor gradient = cross_entropy_gradient(std::move(chunk.logits), chunk.targets, chunk.log_sum,
                                                 chunk.coefficient, split_ ? Columns::piece : Columns::all);
  if (chunk.added.defined()) gradient.narrow(0, 0, chunk.added.size(0)).add_(chunk.added);
  if (output_.trains()) output_.store->add_product(output_.index, gradient, chunk.hidden);
  if (all)
    product_into(d_hidden, gradient, weight);
  else
    d_hidden.index_copy_(0, chosen.to, product(gradient, weight).narrow(0, 0, chosen.count()));
}

Tensor LinearCrossEntropy::gradients(const Tensor& hidden, const Tensor& targets, const Tensor& coefficients,
                                     ScoredChunk kept, std::optional<int64_t> at_most, const Addition& addition) const {
  const MemoryScope scope(MemoryCategory::logits);
  TORCH_CHECK(!split_ || !at_most || hidden.is_meta(), "ranks that divide the vocabulary count tokens with a weight");
  const Tensor weight = output_.weight();
  const bool chooses_of_ranks = split_ && kept.logits_.defined();  // in the chunk of all, below
  const int64_t N = targets.size(0);
  const Chosen chosen = chooses_of_ranks ? Chosen() : nonzero(coefficients, addition ? std::optional(N) : at_most);
  const int64_t rows = std::max(hidden.size(0), N + (chosen.has_spares() ? 1 : 0));
  Tensor d_hidden = at::zeros({rows, hidden.size(1)}, hidden.options());
  if (kept.logits_.defined()) {
    Chunk chunk{split_ ? kept.hidden_ : hidden, split_ ? kept.targets_ : targets, std::move(kept.logits_), {}, {}};
    complete(chunk, kept.log_sums_, coefficients.contiguous(), kept.most_);
    std::optional<int64_t> at_most_of_ranks;
    if (split_ && at_most) at_most_of_ranks = *at_most * split_->ranks();
    const Chosen of_chunk = !split_ ? chosen : addition ? Chosen() : nonzero(chunk.coefficient, at_most_of_ranks);
    add(chunk, addition, 0, N, split_ ? kept.most_ : N);
    differentiate_here(std::move(chunk), of_chunk, weight, d_hidden);
    return d_hidden.narrow(0, 0, N);
  }
  int64_t most = 0;
  if (split_) most = hidden.is_meta() ? at_most.value_or(kept.most_) : split_->largest(chosen.count(), hidden.device());
  for_each_chunk(chosen.count(), most, hidden.is_meta(), [&](int64_t begin, int64_t n, int64_t own) {
    const Chosen rows = chosen.narrow(begin, own);
    const int64_t padded = split_ ? own : chunk_;
    const auto of = [&](const Tensor& part) { return selected(part, rows.from, padded); };
    const Tensor own_hidden = of(hidden), own_targets = of(targets);
    Tensor own_coefficients = rows.coefficients(coefficients, padded);
    Chunk chunk = chunk_of(own_hidden, own_targets, n, weight);
    complete(chunk, kept.log_sums_.defined() ? of(kept.log_sums_) : scored(chunk, own_targets, {}).log_sum,
             std::move(own_coefficients), n);
    add(chunk, addition, begin, own, n);
    Tensor d_rows = at::empty_like(own_hidden);
    differentiate_here(std::move(chunk), {}, weight, d_rows);
    d_hidden.index_copy_(0, rows.to, d_rows.narrow(0, 0, rows.count()));
  });
  return d_hidden.narrow(0, 0, N);
}

}  // namespace wmtp
