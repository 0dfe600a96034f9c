#include "model/torch/vocabulary_split.hpp"

#include "model/torch/tensor_parallel.hpp"

namespace wmtp {

using at::Tensor;

Tensor VocabularySplit::gathered(const Tensor& own, int64_t n) const {
  Tensor part = own.contiguous();
  if (own.size(0) < n) {
    std::vector<int64_t> shape = own.sizes().vec();
    shape.front() = n;
    part = at::zeros(shape, own.options());
    part.narrow(0, 0, own.size(0)).copy_(own);
  }
  return ranks_.all_gather(part).flatten(0, 1);
}

ScoredLogits VocabularySplit::scored(const Tensor& logits, const Tensor& columns, const Tensor& targets,
                                     ScoreRequest request) const {
  const auto [scores, log_sum] = cross_entropy(logits, columns, {request.entropies, request.hits}, Columns::piece);
  std::vector<Tensor> sent{log_sum, scores.losses};
  const auto send = [&](const Tensor& part) {
    sent.push_back(part);
    return int64_t(sent.size()) - 1;
  };
  int64_t entropy = 0, hit = 0, highest = 0, column = 0, larger = 0, of_target = 0, other = 0;  // places in `sent`
  if (request.entropies) entropy = send(scores.entropies);
  if (request.hits) hit = send(scores.hits);
  if (request.hits || request.likeliest) highest = send(logits.amax(1).to(at::kFloat));
  if (request.likeliest) column = send(largest_column(logits));
  if (request.ranks || request.margins) {
    const Tensor here = target_logits(logits, columns, Columns::piece);
    if (request.ranks) larger = send(count_larger(logits, ranks_.all_gather(here).amax(0)));
    if (request.margins) of_target = send(here), other = send(largest_others(logits, columns, Columns::piece));
  }
  const auto largest = int64_t(sent.size());
  if (request.top_k > 0)
    for (const Tensor& one : largest_logits(logits, request.top_k).unbind(1)) sent.push_back(one);
  const int64_t num_largest = int64_t(sent.size()) - largest;
  const Tensor by_rank = at::stack(sent).view({int64_t(sent.size()), ranks(), -1}).transpose(0, 1).contiguous();
  const int64_t m = targets.size(0);
  const Tensor received = ranks_.all_to_all(by_rank).narrow(2, 0, m).to(at::kDouble);  // [T, parts, m]
  const auto of_ranks = [&](int64_t i) { return received.select(1, i); };

  const Tensor owner = at::floor_divide(targets, logits.size(1)).unsqueeze(0);  // whose column the target is
  const auto of_owner = [&](const Tensor& one) { return one.gather(0, owner).squeeze(0); };
  // As at::logsumexp, whose own temporary tensors `plan` would not see.
  const Tensor log_sums = of_ranks(0), highest_sum = log_sums.amax(0, /*keepdim=*/true);
  const Tensor all = (log_sums - highest_sum).exp().sum(0).log() + highest_sum.squeeze(0);
  ScoredLogits result{{.losses = (of_owner(of_ranks(1)) + (all - of_owner(log_sums))).to(at::kFloat)},
                      all.to(at::kFloat)};
  if (request.entropies) {
    const Tensor log_share = log_sums - all;
    result.scores.entropies = (log_share.exp() * (of_ranks(entropy) - log_share)).sum(0).to(at::kFloat);
  }
  if (request.hits) {
    // Where the target's logit is the highest of its rank's columns, it is of all if no rank has a higher one.
    const Tensor of_rank = of_ranks(highest);
    result.scores.hits = (of_owner(of_ranks(hit)) * of_owner(of_rank).ge(of_rank.amax(0))).to(at::kFloat);
  }
  if (request.likeliest) {  // of equal logits that of the first rank
    const Tensor rank = of_ranks(highest).argmax(0, /*keepdim=*/true);
    result.scores.likeliest =
        (of_ranks(column).gather(0, rank).squeeze(0) + rank.squeeze(0) * logits.size(1)).to(at::kFloat);
  }
  if (request.ranks) result.scores.ranks = of_ranks(larger).sum(0).to(at::kFloat);
  if (request.margins) result.scores.margins = (of_ranks(of_target).amax(0) - of_ranks(other).amax(0)).to(at::kFloat);
  if (request.top_k > 0) {
    const Tensor of_all = received.narrow(1, largest, num_largest).flatten(0, 1).transpose(0, 1);
    result.scores.top_masses = mass_of(largest_logits(of_all, request.top_k), all.to(at::kFloat));
  }
  return result;
}

Tensor VocabularySplit::of_own_rows(const Tensor& columns, int64_t m) const {
  const Tensor by_rank = ranks_.all_to_all(columns.view({ranks(), -1, columns.size(1)}));  // [T, n, V/T]
  return by_rank.narrow(1, 0, m).transpose(0, 1).flatten(1);
}

Tensor VocabularySplit::of_own_columns(const Tensor& rows, int64_t n) const {
  Tensor padded = at::zeros({n, rows.size(1)}, rows.options());
  padded.narrow(0, 0, rows.size(0)).copy_(rows);
  const Tensor by_rank = padded.view({n, ranks(), -1}).transpose(0, 1).contiguous();
  return ranks_.all_to_all(by_rank).flatten(0, 1);
}

Tensor VocabularySplit::summed(const Tensor& parts) const {
  return reduce_scatter(parts.view({ranks(), -1, parts.size(1)}), ranks_);
}

int64_t VocabularySplit::largest(int64_t number, const at::Device& device) const {
  return ranks_.all_gather(at::full({1}, number, at::TensorOptions(at::kLong).device(device))).max().item<int64_t>();
}

}  // namespace wmtp
