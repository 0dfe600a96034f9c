#include "train/samples.hpp"

#include <algorithm>
#include <cmath>

namespace wmtp {

using at::Tensor;

std::vector<TokenSample> Samples::take(int64_t number) {
  const std::vector<MicroBatch> micros{
      request_.source->held_out(0, request_.available, channels_.data_rank(), channels_.data_ranks())};
  const MicroBatch& micro = micros.front();
  FrozenSignals frozen(frozen_, micros);
  const StepCounts counts = count_over_ranks(micros, channels_, "counting sampled tokens", &frozen.missing());
  const FrozenCache::Signals signals = frozen.of(0);
  const auto reference = signals.find("reference.loss");
  const Tensor reference_loss = reference == signals.end() ? Tensor() : reference->second.cpu();

  const auto ask = [&](auto question) {
    std::map<std::string, Tensor> before;
    for (const auto& [name, state] : run_context_.pipeline_state) before[name] = state.clone();
    StepTotals dropped;
    MicroBatchContext step(run_context_, {number, counts, dropped, /*counts_selections=*/true}, micro, signals);
    auto answer = question(step);
    step_runner_.forget_weights();
    run_context_.pipeline_state = std::move(before);
    return answer;
  };
  const auto heads = ask([&](MicroBatchContext& step) { return step_runner_.weigh(step); });
  HeadAlignment alignment;
  if (request_.compares_heads) alignment = ask([&](MicroBatchContext& step) { return step_runner_.align(step); });
  return channels_.rank() == 0 ? rows(micro, heads, reference_loss, alignment) : std::vector<TokenSample>{};
}

std::vector<TokenSample> Samples::rows(const MicroBatch& micro, const std::vector<WeighedLosses>& heads,
                                       const Tensor& reference_loss, const HeadAlignment& alignment) const {
  const Tensor tokens = micro.batch.tokens.cpu(), kinds = micro.batch.kind.cpu();
  const bool is_compared = alignment.cosines.defined();
  const Tensor products = is_compared ? alignment.products.cpu() : Tensor(),
               cosines = is_compared ? alignment.cosines.cpu() : Tensor();
  std::vector<WeighedLosses> here;
  std::vector<Tensor> sources;
  for (const WeighedLosses& head : heads) {
    here.push_back({head.losses.cpu(), head.weights.cpu()});
    sources.push_back(micro.sources(int64_t(here.size())).cpu());
  }
  std::vector<TokenSample> rows;
  for (int64_t b = 0; b < std::min(request_.sequences, tokens.size(0)); ++b) {
    if (micro.sequences[size_t(b)] < 0) continue;
    for (int64_t position = 0; position < tokens.size(1); ++position) {
      if (kinds[b][position].item<int>() == 0) continue;
      for (int64_t k = 1; k <= int64_t(here.size()); ++k) {
        const int64_t source = position - micro.offset(k);
        TokenSample row;
        row.sequence = micro.sequences[size_t(b)];
        row.position = position;
        row.head = k;
        row.token = tokens[b][position].item<int64_t>();
        if (source >= 0 && sources[size_t(k - 1)][b][source].item<bool>()) {
          row.loss = here[size_t(k - 1)].losses[b][source].item<double>();
          row.weight = here[size_t(k - 1)].weights[b][source].item<double>();
          if (reference_loss.defined()) {
            const bool has_own_heads = reference_loss.dim() == 3;
            row.reference_loss =
                (has_own_heads ? reference_loss[b][source][k - 1] : reference_loss[b][position - 1]).item<double>();
          }
          if (is_compared && std::isfinite(cosines[b][source][k - 1].item<double>())) {
            row.product = products[b][source][k - 1].item<double>();
            row.cosine = cosines[b][source][k - 1].item<double>();
          }
        }
        rows.push_back(row);
      }
    }
  }
  return rows;
}

}  // namespace wmtp
