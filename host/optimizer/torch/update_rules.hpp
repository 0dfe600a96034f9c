// How each optimizer updates a part of a shard.
#pragma once

#include <ATen/ATen.h>

#include "experiment/experiment.hpp"
#include "experiment/optimizer_kind.hpp"

namespace wmtp {

/// Parameters with equal settings: fp32, flat, of equal lengths.
struct Update {
  at::Tensor master, gradient;
  at::Tensor exp_avg, exp_avg_sq;  ///< empty if the optimizer keeps fewer averages (kept_averages)
  at::Tensor steps;                ///< number of this step, counted from 1: an fp32 scalar
  double lr, weight_decay;         ///< of these parameters
};

/// Changes the parameters and their averages.
using UpdateRule = void (*)(const Update& update, const OptimizerConfig& config);
/// That of parameters which are not orthogonalized.
UpdateRule update_rule(OptimizerKind kind);

}  // namespace wmtp
