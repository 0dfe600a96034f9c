// Samples: loss, weight and, if the pipeline reads it, reference loss of every token of the first sequences of the
// validation data, and, if the run compares heads, how the head's gradient at the trunk's output aligns with head 1's;
// always the same sequences, so that they can be followed from step to step.
//
// The weights, and the losses of these gradients, are those of a training micro-batch that consists of the first
// validation sequences (one micro-batch over all ranks); thresholds over ranks are computed from these. Changes to the
// pipeline's state are undone and its metrics dropped.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "step/frozen_signals.hpp"
#include "step/step_runner.hpp"

namespace wmtp {

/// The prediction of the token at `position` of a sequence by head `head` (1: next token).
struct TokenSample {
  int64_t sequence = 0;  ///< index in the validation data
  int64_t position = 0;
  int64_t head = 1;
  int64_t token = 0;
  std::optional<double> weight, loss;    ///< nullopt if the head has no such target
  std::optional<double> reference_loss;  ///< nullopt also if the pipeline reads no reference
  /// With head 1, at the position from which the head predicts the token (step/head_alignment.hpp); nullopt also if
  /// heads are not compared, or a gradient is not finite.
  std::optional<double> product, cosine;
};

struct SampleRequest {
  const BatchSource* source = nullptr;  ///< validation data
  int64_t sequences = 0;                ///< number to sample, at most one rank's micro-batch
  int64_t available = 0;                ///< validation sequences
  bool compares_heads = false;
};

class Samples {
 public:
  /// `frozen`: signals of the models that the pipeline reads, for this data.
  Samples(const SampleRequest& request, FrozenSignals::Models frozen, StepRunner& step_runner,
          const RunContext& run_context, Channels& channels)
      : request_(request),
        frozen_(std::move(frozen)),
        step_runner_(step_runner),
        run_context_(run_context),
        channels_(channels) {}

  /// By sequence, position and head, without padding; empty except on rank 0. [all ranks, collective]
  std::vector<TokenSample> take(int64_t number);

 private:
  std::vector<TokenSample> rows(const MicroBatch& micro, const std::vector<WeighedLosses>& heads,
                                const at::Tensor& reference_loss, const HeadAlignment& alignment) const;

  SampleRequest request_;
  FrozenSignals::Models frozen_;
  StepRunner& step_runner_;
  const RunContext& run_context_;
  Channels& channels_;
};

}  // namespace wmtp
