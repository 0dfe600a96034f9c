#include "model/torch/linear_cross_entropy.hpp"

#include <algorithm>

#include "base/round_up.hpp"
#include "memory/allocator.hpp"
#include "memory/meta_device.hpp"
#include "model/torch/matrix_product.hpp"

namespace wmtp {
namespace {

using at::Tensor;
void put(Scores& all, int64_t begin, const Scores& chunk) {
  const auto put_part = [&](Tensor& to, const Tensor& from) {
    if (to.defined()) to.narrow(0, begin, from.size(0)).copy_(from);
  };
  put_part(all.losses, chunk.losses);
  put_part(all.entropies, chunk.entropies);
  put_part(all.hits, chunk.hits);
}

/// Row counts of products are multiples of this: oneDNN's setup for each new number of rows takes a tenth of a product
/// of 600 rows with 8,192 x 256 in bf16, and the number of selected tokens changes from step to step.
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

}  // namespace

/// Tokens whose gradients are computed. An undefined `from` means all.
struct LinearCrossEntropy::Chosen {
  Tensor from;              ///< [n] index of each
  Tensor to;                ///< [n] the same, but the index after the last token for an entry without a token
  bool has_spares = false;  ///< whether there may be entries without a token

  int64_t count() const { return from.size(0); }
  Chosen narrow(int64_t begin, int64_t n) const {
    return {from.narrow(0, begin, n), to.narrow(0, begin, n), has_spares};
  }
  /// Those of `all` [N], at most `most`; 0 for an entry without a token, so that its row contributes nothing.
  Tensor coefficients(const Tensor& all, int64_t most) const {
    const Tensor rows = selected(all, from, most);
    if (has_spares) rows.narrow(0, 0, count()).masked_fill_(to >= all.size(0), 0);
    return rows;
  }
};

LinearCrossEntropy::Chosen LinearCrossEntropy::nonzero(const Tensor& coefficients, std::optional<int64_t> at_most) {
  const int64_t N = coefficients.size(0);
  const at::TensorOptions places = coefficients.options().dtype(at::kLong);
  if (coefficients.is_meta() && on_cpu(coefficients)) {
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
  return {index.clamp_max(N - 1), index, /*has_spares=*/true};
}

/// n tokens differentiated in one product.
struct LinearCrossEntropy::Chunk {
  Tensor hidden, targets, logits, log_sum, coefficient;  // [n,D], [n], [n,V], [n] and [n]

  /// The chosen tokens, padded with rows of zeros, which contribute nothing.
  Chunk rows(const Chosen& chosen) const {
    const auto of = [&](const Tensor& part) { return selected(part, chosen.from, part.size(0)); };
    return {of(hidden), of(targets), of(logits), of(log_sum), chosen.coefficients(coefficient, coefficient.size(0))};
  }
};

Scores LinearCrossEntropy::scores(const Tensor& hidden, const Tensor& targets, ScoreRequest request) const {
  return score(hidden, targets, request, nullptr);
}

Scores LinearCrossEntropy::scores(const Tensor& hidden, const Tensor& targets, ScoreRequest request,
                                  ScoredChunk& kept) const {
  return score(hidden, targets, request, &kept);
}

Scores LinearCrossEntropy::score(const Tensor& hidden, const Tensor& targets, ScoreRequest request,
                                 ScoredChunk* kept) const {
  const MemoryScope scope(MemoryCategory::logits);
  const int64_t count = hidden.size(0);
  Scores all = empty_scores(count, hidden.options(), request);
  if (kept) {
    kept->logits_.reset();
    kept->log_sums_ = at::empty({count}, hidden.options().dtype(at::kFloat));
  }
  for_each_part(count, chunk_, hidden.is_meta(), [&](int64_t begin, int64_t n) {
    const Tensor logits = product_with_rows(hidden.narrow(0, begin, n), output_.weight());
    const auto [scores, log_sum] = cross_entropy(logits, targets.narrow(0, begin, n), request);
    put(all, begin, scores);
    if (kept) kept->log_sums_.narrow(0, begin, n).copy_(log_sum);
    if (kept && n == count) kept->logits_ = logits;
  });
  return all;
}

LinearCrossEntropy::Result LinearCrossEntropy::one_pass(const Tensor& hidden, const Tensor& targets,
                                                        const Coefficients& coefficients, bool sparse,
                                                        ScoreRequest request) const {
  const MemoryScope scope(MemoryCategory::logits);
  const int64_t count = hidden.size(0);
  const Tensor weight = output_.weight();
  Result result{empty_scores(count, hidden.options(), request), at::empty_like(hidden)};
  for_each_part(count, chunk_, hidden.is_meta(), [&](int64_t begin, int64_t n) {
    Chunk chunk{hidden.narrow(0, begin, n), targets.narrow(0, begin, n), {}, {}, {}};
    chunk.logits = product_with_rows(chunk.hidden, weight);
    auto [scores, log_sum] = cross_entropy(chunk.logits, chunk.targets, request);
    chunk.log_sum = std::move(log_sum);
    put(result.scores, begin, scores);
    chunk.coefficient = coefficients(scores, begin).contiguous();
    const Chosen chosen = sparse ? nonzero(chunk.coefficient) : Chosen();
    differentiate(std::move(chunk), chosen, weight, result.d_hidden.narrow(0, begin, n));
  });
  return result;
}

/// Adds to the weight's gradient and writes d_hidden [n,D], with a row more for spare entries.
void LinearCrossEntropy::differentiate(Chunk chunk, const Chosen& chosen, const Tensor& weight, Tensor d_hidden) const {
  const bool all = !chosen.from.defined() || chosen.count() == chunk.hidden.size(0);
  if (!all) {
    d_hidden.zero_();
    if (chosen.count() == 0) return;
    chunk = chunk.rows(chosen);
  }
  const Tensor gradient =
      cross_entropy_gradient(std::move(chunk.logits), chunk.targets, chunk.log_sum, chunk.coefficient);
  if (output_.trains()) output_.store->add_product(output_.index, gradient, chunk.hidden);
  if (all)
    product_into(d_hidden, gradient, weight);
  else
    d_hidden.index_copy_(0, chosen.to, product(gradient, weight).narrow(0, 0, chosen.count()));
}

Tensor LinearCrossEntropy::gradients(const Tensor& hidden, const Tensor& targets, const Tensor& coefficients,
                                     ScoredChunk kept, std::optional<int64_t> at_most) const {
  const MemoryScope scope(MemoryCategory::logits);
  const Tensor weight = output_.weight();
  const Chosen chosen = nonzero(coefficients, at_most);
  const int64_t N = hidden.size(0);
  Tensor d_hidden = at::zeros({N + (chosen.has_spares ? 1 : 0), hidden.size(1)}, hidden.options());
  if (kept.logits_.defined()) {
    differentiate({hidden, targets, std::move(kept.logits_), kept.log_sums_, coefficients.contiguous()}, chosen, weight,
                  d_hidden);
    return d_hidden.narrow(0, 0, N);
  }
  for_each_part(chosen.count(), chunk_, hidden.is_meta(), [&](int64_t begin, int64_t n) {
    const Chosen rows = chosen.narrow(begin, n);
    const auto of = [&](const Tensor& part) { return selected(part, rows.from, chunk_); };
    Chunk chunk{of(hidden), of(targets), {}, {}, rows.coefficients(coefficients, chunk_)};
    chunk.logits = product_with_rows(chunk.hidden, weight);
    chunk.log_sum =
        kept.log_sums_.defined() ? of(kept.log_sums_) : cross_entropy(chunk.logits, chunk.targets, {}).log_sum;
    Tensor d_rows = at::empty_like(chunk.hidden);
    differentiate(std::move(chunk), {}, weight, d_rows);
    d_hidden.index_copy_(0, rows.to, d_rows.narrow(0, 0, rows.count()));
  });
  return d_hidden.narrow(0, 0, N);
}

}  // namespace wmtp
