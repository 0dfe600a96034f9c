// TrainerState: everything besides the parameters that changes from step to step, as saved in a checkpoint.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <optional>
#include <string>

#include "checkpoint/saved_state.hpp"
#include "optimizer/guard.hpp"
#include "optimizer/loss_scale.hpp"

namespace wmtp {

struct TrainerState {
  int64_t step = 0;    ///< completed optimizer steps
  int64_t drawn = 0;   ///< sequences over all ranks: the position in the data, independent of the number of ranks
  int64_t tokens = 0;  ///< tokens seen over all ranks, excluding padding
  Guard guard;
  std::map<std::string, at::Tensor> pipeline_state = {};  ///< the plugin's named tensors, equal on all ranks
  std::optional<LossScale> loss_scale = std::nullopt;     ///< with fp16
  RunProgress results = {};
  std::string base_fingerprint = {};  ///< of the model that an adapter modifies; empty without an adapter

  /// The saved part of this state; equal on all ranks.
  SavedState saved() const;
  /// Restores from a checkpoint of the same experiment, whose ranks together drew `sequences_per_step`. Error(data),
  /// starting with `where`, if it was saved with another base model, precision or guard window.
  void restore(const Manifest& manifest, const SavedState& saved, int64_t sequences_per_step, const std::string& where);
};

}  // namespace wmtp
