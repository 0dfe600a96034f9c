// TrainerState: everything besides the parameters that changes from step to step, as saved in a checkpoint.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <optional>
#include <string>

#include "checkpoint/saved_state.hpp"
#include "optimizer/guard.hpp"
#include "optimizer/loss_scale.hpp"
#include "step/previous_losses.hpp"

namespace wmtp {

struct TrainerState {
  int64_t step = 0;    ///< completed optimizer steps
  int64_t drawn = 0;   ///< sequences over all ranks: the position in the data, independent of the number of ranks
  int64_t tokens = 0;  ///< tokens seen over all ranks, excluding padding
  Guard guard;
  std::map<std::string, at::Tensor> pipeline_state = {};         ///< the plugin's named tensors, equal on all ranks
  std::optional<LossScale> loss_scale = std::nullopt;            ///< with fp16
  std::optional<PreviousLosses> previous_losses = std::nullopt;  ///< with the heads, if the pipeline reads them
  RunProgress results = {};
  std::string base_fingerprint = {};  ///< of the model that an adapter modifies; empty without an adapter

  /// The saved part of this state; equal on all ranks.
  SavedState saved() const;
  /// What a checkpoint holds by name: pipeline_state and the previous losses.
  std::map<std::string, at::Tensor> named_tensors();
  /// Restores from a checkpoint of the same experiment, whose ranks together drew `sequences_per_step`, and whose named
  /// tensors are in pipeline_state. Error(data), starting with `where`, if it was saved with another base model,
  /// precision or guard window, or with losses of other data.
  void restore(const Manifest& manifest, const SavedState& saved, int64_t sequences_per_step, const std::string& where);

 private:
  void restore_previous_losses(const std::string& where);
};

}  // namespace wmtp
