// Validation: the unweighted loss on held-out data, and related metrics.
//
//   valid/ce_head_k, valid/loss       mean loss of the valid targets, and its mean over the heads that have any (NaN if
//                                     none has); for an objective its own loss, and its metrics as valid/NAME
//   valid/ce_head_1/BIN               records with difficulties: the next-token head's loss in one bin
//   valid/accuracy_head_k             share of the valid targets that are the head's most likely token
//   valid/accept_head_k               k >= 2: share of the positions with drafts of all tokens from the second to that
//                                     of head k (model/drafts.hpp) at which all of these are right: the last would be
//                                     accepted, if head 1 would write the text itself (Stern et al. 2018, arXiv
//                                     1811.03115)
//   valid/tokens_per_pass             of such a decoding: mean tokens of a pass, which are its accepted drafts and one
//   valid/exact_match[/BIN]           records: share of the right answers whose every token is the next-token head's
//                                     most likely one, given the tokens before it, as greedy decoding would produce
//   valid/tokens_hh, _lh, _hl, _ll    shares of tokens by the change of the next-token head's loss from the first
//                                     validation to this one: up by over 0.2 (lh), down by over 0.2 (hl), else above
//                                     (hh) or not above (ll) this validation's mean; after "Rho-1", arXiv 2404.07965,
//                                     section 2.1
//   valid/HEAD/calibration/I/...      objectives with a value head that learns the outcome (not scores): of the answer
//                                     tokens whose value is in [I/10, (I+1)/10), 0 and 9 with those beyond: `tokens`,
//                                     `value` (their mean value) and `outcome` (the share whose answer is right)
//   valid/HEAD/calibration_error      mean over these tokens of |outcome - value| of their bin: the expected
//                                     calibration error (Guo et al. 2017, arXiv 1706.04599)
#pragma once

#include <map>
#include <string>

#include "data/torch/batches.hpp"
#include "step/step_runner.hpp"

namespace wmtp {

struct ValidationRequest {
  const BatchSource* source = nullptr;
  int64_t sequences = 0;   ///< number used, from the start of the source
  int64_t batch_size = 0;  ///< per rank
  int64_t sequence_length = 0;
  bool exact_match = false;
};

class Validation {
 public:
  Validation(const ValidationRequest& request, StepRunner& step_runner, const RunContext& run_context,
             ActivePipeline& pipeline, Channels& channels)
      : request_(request),
        step_runner_(step_runner),
        run_context_(run_context),
        pipeline_(pipeline),
        channels_(channels) {}

  /// Call after optimizer step `number`. Stores the first validation's losses in the pipeline's state, in
  /// which the pipeline's own changes are undone. [all ranks, collective]
  std::map<std::string, double> run(int64_t number);

 private:
  std::vector<MicroBatch> fetch() const;
  void add_bin_losses(const MicroBatch& micro, const at::Tensor& losses, StepTotals& totals) const;
  static void add_drafts(const MicroBatch& micro, const std::vector<Scores>& scores, StepTotals& totals);
  void add_exact_matches(const MicroBatch& micro, const at::Tensor& hits, StepTotals& totals) const;
  void add_calibration(const MicroBatchContext& step, StepTotals& totals) const;
  void place_losses(const MicroBatch& micro, const at::Tensor& losses, at::Tensor& all) const;
  std::map<std::string, double> objective_metrics(const StepTotals& totals) const;
  std::map<std::string, double> token_metrics(const StepTotals& totals, const StepCounts& counts) const;
  std::map<std::string, double> token_classes(const at::Tensor& mine) const;

  ValidationRequest request_;
  StepRunner& step_runner_;
  const RunContext& run_context_;
  ActivePipeline& pipeline_;
  Channels& channels_;
};

}  // namespace wmtp
