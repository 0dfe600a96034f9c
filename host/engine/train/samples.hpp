// Samples: what a run thinks, token by token, of a few sequences that stay the same from step to step: the first of
// the validation data. Their losses, the weights that the pipeline would give them, and the reference's losses where it
// reads these.
//
// The weights are those of a micro-batch of training that consisted of the first sequences of the validation data, as
// many as a micro-batch has on all ranks; a threshold over ranks is one over these. What the pipeline remembers of it
// is undone, what it reports is dropped.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/frozen/frozen_cache.hpp"
#include "engine/train/micro_step.hpp"

namespace wmtp {

/// What head `head` (1: next token) says of the token at `position` of a sequence.
struct TokenSample {
  int64_t sequence = 0;  ///< its place in the validation data
  int64_t position = 0;
  int64_t head = 1;
  int64_t token = 0;
  std::optional<double> weight, loss;    ///< nothing where the head has no such target
  std::optional<double> reference_loss;  ///< nothing either where no reference is read
};

struct SampleRequest {
  const BatchSource* source = nullptr;  ///< of validation
  int64_t sequences = 0;                ///< that are looked at; at most those of one rank's micro-batch
  int64_t available = 0;                ///< sequences of validation
};

class Samples {
 public:
  /// `frozen`: the models that the pipeline reads, for this data.
  Samples(const SampleRequest& request, std::vector<std::unique_ptr<FrozenCache>> frozen, MicroStep& micro_step,
          const StepEnvironment& environment, Channels& channels)
      : request_(request),
        frozen_(std::move(frozen)),
        micro_step_(micro_step),
        environment_(environment),
        channels_(channels) {}

  /// Rows by sequence, position and head, all positions but padding; on rank 0, nothing elsewhere. The run's named
  /// tensors stay as they are. [all ranks, collective]
  std::vector<TokenSample> take(int64_t number);

 private:
  FrozenCache::Signals signals_of(const MicroBatch& micro, const std::vector<double>& lacks) const;
  std::vector<TokenSample> rows(const MicroBatch& micro, const std::vector<WeighedLosses>& heads,
                                const at::Tensor& reference_loss) const;

  SampleRequest request_;
  std::vector<std::unique_ptr<FrozenCache>> frozen_;
  MicroStep& micro_step_;
  const StepEnvironment& environment_;
  Channels& channels_;
};

}  // namespace wmtp
