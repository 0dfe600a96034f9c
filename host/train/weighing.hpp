// Weighing: the weights that a weighting gives to the tokens of the validation data, and a finished model's losses,
// without training.
//
// The micro-batches are the validation data in order, each as large as one of training over all ranks of the model's
// run, so that thresholds over a micro-batch are as selective as in training. The pipeline's state is empty before the
// first one, and goes from each to the next.
#pragma once

#include "job/engine_requests.hpp"
#include "train/session.hpp"

namespace wmtp {

/// `session`: of a weighing_job of the request. [one rank] Error(data) if the model lacks a tensor of the experiment's
/// shape, or a value head that the pipeline reads; Error(plugin) for weights that training would refuse.
WeighedTokens weigh_tokens(Session& session, const WeighRequest& request);

}  // namespace wmtp
