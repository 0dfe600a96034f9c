#include "train/validation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/work_progress.hpp"
#include "model/drafts.hpp"

namespace wmtp {
namespace {

using at::Tensor;

constexpr int calibration_bins = 10;  // of equal width, from 0 to 1

/// Whether a head's value is the chance that the answer is right.
bool learns_outcome(const ValueHead& head) { return head.meaning == "value"; }

std::string calibration_name(const ValueHead& head, int bin) {
  return head.name + "/calibration/" + std::to_string(bin) + "/";
}

/// [B,S] bool of `earlier` positions before each; false where there is none.
Tensor looking_back(const Tensor& flags, int64_t earlier) {
  if (earlier == 0) return flags;
  const int64_t S = flags.size(1), none = std::min(earlier, S);
  return at::constant_pad_nd(flags.narrow(1, 0, S - none), {none, 0});
}

constexpr const char* first_losses = "validation/first_losses";
constexpr double unchanged_within = 0.2;                    // nats
constexpr int64_t most_tokens_compared = int64_t{1} << 22;  // 16 MB, in every checkpoint

}  // namespace

std::vector<MicroBatch> Validation::fetch() const {
  const int64_t per_round = request_.batch_size * channels_.data_ranks();
  std::vector<MicroBatch> micros;
  for (int64_t first = 0; first < request_.sequences; first += per_round)
    micros.push_back(
        request_.source->held_out(first, request_.sequences, channels_.data_rank(), channels_.data_ranks()));
  return micros;
}

std::map<std::string, double> Validation::run(int64_t number) {
  const std::vector<MicroBatch> micros = fetch();
  const StepCounts counts = count_over_ranks(micros, channels_, "counting the validation's tokens");
  const int64_t compared = std::min(request_.sequences, most_tokens_compared / request_.sequence_length);
  Tensor losses = at::zeros({compared, request_.sequence_length}, at::kDouble);
  const bool is_first = channels_.same_sequences_group().rank == 0;
  StepTotals totals(is_first);
  std::map<std::string, Tensor> before;
  for (const auto& [name, state] : run_context_.pipeline_state)
    before[name] = pipeline_.objective ? state.clone() : state;
  WorkProgress progress("validating", int64_t(micros.size()));
  for (const MicroBatch& micro : micros) {
    progress.advance(1);
    MicroBatchContext step(run_context_, {number, counts, totals}, micro);
    const std::vector<Scores> scores = step_runner_.evaluate(step);
    for (size_t k = 0; k < scores.size(); ++k) {
      totals.add_once("valid/" + std::to_string(k + 1), scores[k].losses.sum(at::kDouble));
      totals.add_once("hits/" + std::to_string(k + 1), scores[k].hits.sum(at::kDouble));
    }
    if (pipeline_.objective && channels_.section_index() == channels_.sections() - 1) add_calibration(step, totals);
    if (scores.empty()) continue;
    add_drafts(micro, scores, totals);
    add_bin_losses(micro, scores[0].losses, totals);
    if (request_.exact_match) add_exact_matches(micro, scores[0].hits, totals);
    if (is_first) place_losses(micro, scores[0].losses, losses);
  }
  run_context_.pipeline_state = std::move(before);
  if (channels_.section_index() < channels_.sections() - 1) return {};
  totals.exchange(channels_);
  if (pipeline_.objective) return objective_metrics(totals);
  auto metrics = token_metrics(totals, counts);
  metrics.merge(token_classes(losses));
  return metrics;
}

void Validation::add_bin_losses(const MicroBatch& micro, const Tensor& losses, StepTotals& totals) const {
  const std::vector<std::string> names = request_.source->bins();
  if (names.empty()) return;
  const Tensor bins = at::tensor(micro.bins).to(losses.device());
  const Tensor of_row = losses.sum(1, /*keepdim=*/false, at::kDouble);
  const Tensor targets = micro.sources(1).sum(1);
  for (size_t i = 0; i < names.size(); ++i) {
    totals.add_once("bin_loss/" + names[i], (of_row * bins.eq(int64_t(i))).sum());
    totals.add_once("bin_targets/" + names[i], (targets * bins.eq(int64_t(i))).sum());
  }
}

/// A draft (model/drafts.hpp) is accepted if it and those of the tokens before it are right. Passes follow one another
/// in each sequence, as in greedy decoding with drafts of a text that head 1 would write itself: each yields the
/// accepted drafts and head 1's token after them.
void Validation::add_drafts(const MicroBatch& micro, const std::vector<Scores>& scores, StepTotals& totals) {
  if (scores.size() < 2) return;
  const Tensor begins = micro.sources_of(2);  // where a pass can begin: it has a token to yield
  Tensor drafted = begins, right = begins, accepted = at::zeros_like(begins, at::kLong);
  for (size_t k = 2; k <= scores.size(); ++k) {
    const Tensor predicts = micro.sources(int64_t(k)), hits = scores[k - 1].hits.ne(0);
    for (int64_t earlier = num_drafts(micro.offsets, int64_t(k)) - 1; earlier >= 0; --earlier) {
      drafted = drafted.logical_and(looking_back(predicts, earlier));
      right = right.logical_and(drafted).logical_and(looking_back(hits, earlier));
      accepted += right;
    }
    totals.add_once("drafted/" + std::to_string(k), drafted.sum());
    totals.add_once("accepted/" + std::to_string(k), right.sum());
  }
  const Tensor begins_here = begins.cpu(), accepted_here = accepted.cpu();
  const auto begin = begins_here.accessor<bool, 2>();
  const auto drafts = accepted_here.accessor<int64_t, 2>();
  const int64_t S = begins.size(1);
  int64_t passes = 0, tokens = 0;
  for (int64_t b = 0; b < begins.size(0); ++b)
    for (int64_t source = 0; source < S; ++source) {
      if (!begin[b][source]) continue;
      const int64_t end = std::min(source + 1 + drafts[b][source], S);
      ++passes;
      ++tokens;
      while (source + 1 < end && begin[b][source + 1]) ++source, ++tokens;
    }
  totals.add_once("passes", at::scalar_tensor(double(passes), at::kDouble));
  totals.add_once("tokens of passes", at::scalar_tensor(double(tokens), at::kDouble));
}

/// A sequence matches if every token of its answer, except one without a predecessor, is a hit.
void Validation::add_exact_matches(const MicroBatch& micro, const Tensor& hits, StepTotals& totals) const {
  const Tensor answers = valid_sources(micro.batch.kind.eq(answer_kind), 1), targets = answers.sum(1);
  const Tensor asked = targets.gt(0).logical_and(micro.batch.correct.ne(0));
  const Tensor matched = asked.logical_and((hits * answers).sum(1).eq(targets));
  const Tensor bins = at::tensor(micro.bins).to(asked.device());
  const auto add = [&](const std::string& name, const Tensor& among) {
    totals.add_once("matched" + name, matched.logical_and(among).sum());
    totals.add_once("asked" + name, asked.logical_and(among).sum());
  };
  add("", at::ones_like(asked));
  const std::vector<std::string> names = request_.source->bins();
  for (size_t i = 0; i < names.size(); ++i) add("/" + names[i], bins.eq(int64_t(i)));
}

void Validation::add_calibration(const MicroBatchContext& step, StepTotals& totals) const {
  const Batch& batch = step.batch();
  const Tensor counted = batch.kind.eq(answer_kind).logical_and(batch.correct.ge(0).unsqueeze(1));
  const Tensor right = batch.correct.eq(1).unsqueeze(1);
  for (const ValueHead& head : pipeline_.needs.heads) {
    if (!learns_outcome(head)) continue;
    const Tensor values = step.value(ValueSignal::of_policy(head.name));
    const Tensor bins = (values * calibration_bins).floor().clamp(0, calibration_bins - 1);
    for (int bin = 0; bin < calibration_bins; ++bin) {
      const Tensor inside = counted.logical_and(bins.eq(bin));
      const std::string name = calibration_name(head, bin);
      totals.add_once(name + "tokens", inside.sum());
      totals.add_once(name + "value", at::where(inside, values, 0.0).sum(at::kDouble));
      totals.add_once(name + "outcome", inside.logical_and(right).sum());
    }
  }
}

/// Rows of `all` by sequence: NaN without a target, zero if another rank has the sequence.
void Validation::place_losses(const MicroBatch& micro, const Tensor& losses, Tensor& all) const {
  const Tensor rows = at::where(micro.sources(1), losses, std::numeric_limits<float>::quiet_NaN()).cpu();
  for (int64_t b = 0; b < rows.size(0); ++b) {
    const int64_t sequence = micro.sequences[size_t(b)];
    if (sequence < 0 || sequence >= all.size(0)) continue;
    all[sequence].fill_(std::numeric_limits<double>::quiet_NaN()).narrow(0, 0, rows.size(1)).copy_(rows[b]);
  }
}

std::map<std::string, double> Validation::objective_metrics(const StepTotals& totals) const {
  std::map<std::string, double> metrics{{"valid/loss", totals.sum("loss")}};
  for (const auto& [name, value] : totals.plugin_metrics()) metrics["valid/" + name] = value;
  for (const ValueHead& head : pipeline_.needs.heads) {
    double all = 0, away = 0;
    for (int bin = 0; learns_outcome(head) && bin < calibration_bins; ++bin) {
      const std::string name = calibration_name(head, bin);
      const double tokens = totals.sum(name + "tokens");
      if (tokens == 0) continue;
      const double value = totals.sum(name + "value"), outcome = totals.sum(name + "outcome");
      metrics["valid/" + name + "tokens"] = tokens;
      metrics["valid/" + name + "value"] = value / tokens;
      metrics["valid/" + name + "outcome"] = outcome / tokens;
      all += tokens;
      away += std::abs(outcome - value);
    }
    if (all > 0) metrics["valid/" + head.name + "/calibration_error"] = away / all;
  }
  return metrics;
}

std::map<std::string, double> Validation::token_metrics(const StepTotals& totals, const StepCounts& counts) const {
  std::map<std::string, double> metrics;
  double sum = 0;
  for (size_t k = 0; k < counts.targets.size(); ++k) {
    if (counts.targets[k] == 0) continue;
    const std::string head = std::to_string(k + 1);
    sum += metrics["valid/ce_head_" + head] = totals.sum("valid/" + head) / double(counts.targets[k]);
    metrics["valid/accuracy_head_" + head] = totals.sum("hits/" + head) / double(counts.targets[k]);
    if (k > 0 && totals.sum("drafted/" + head) > 0)
      metrics["valid/accept_head_" + head] = totals.sum("accepted/" + head) / totals.sum("drafted/" + head);
  }
  if (counts.targets.size() > 1 && totals.sum("passes") > 0)
    metrics["valid/tokens_per_pass"] = totals.sum("tokens of passes") / totals.sum("passes");
  metrics["valid/loss"] = sum / double(counts.heads_with_targets());  // NaN if there is no target
  for (const std::string& bin : request_.source->bins())
    if (const double targets = totals.sum("bin_targets/" + bin); targets > 0)
      metrics["valid/ce_head_1/" + bin] = totals.sum("bin_loss/" + bin) / targets;
  for (const std::string& name : totals.names_with("asked"))
    if (totals.sum("asked" + name) > 0)
      metrics["valid/exact_match" + name] = totals.sum("matched" + name) / totals.sum("asked" + name);
  return metrics;
}

std::map<std::string, double> Validation::token_classes(const Tensor& mine) const {
  const Tensor whole = channels_.sum(mine, "comparing validation tokens");
  const auto [place, is_first] = run_context_.pipeline_state.try_emplace(first_losses, whole.to(at::kFloat));
  if (is_first) return {};
  // A run of an earlier version may have used more sequences, from the same start.
  const int64_t both = std::min(whole.size(0), place->second.size(0));
  const Tensor now = whole.narrow(0, 0, both), then = place->second.narrow(0, 0, both);
  const Tensor valid = now.isnan().logical_not(), change = now - then.to(at::kDouble);
  const Tensor up = change.gt(unchanged_within), down = change.lt(-unchanged_within);
  const Tensor same = up.logical_or(down).logical_not(), high = now.gt(now.nanmean());
  const double tokens = valid.sum().item<double>();
  if (tokens == 0) return {};
  const auto share = [&](const Tensor& which) { return which.logical_and(valid).sum().item<double>() / tokens; };
  return {{"valid/tokens_lh", share(up)},
          {"valid/tokens_hl", share(down)},
          {"valid/tokens_hh", share(same.logical_and(high))},
          {"valid/tokens_ll", share(same.logical_and(high.logical_not()))}};
}

}  // namespace wmtp
