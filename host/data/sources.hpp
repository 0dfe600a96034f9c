// Batches of an experiment, whatever its kind of data: who assembles a run need not know the kinds.
#pragma once

#include <cstdint>
#include <memory>

#include "data/batches.hpp"
#include "data/prepare.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

/// What the run trains on, in the run's order. `prepared` outlives the source. Error(usage) when the pipeline wants
/// pairs that this kind of data has not; Error(data) when there is too little for one step over `world` ranks.
std::unique_ptr<BatchSource> training_batches(const Experiment& experiment, const Prepared& prepared,
                                              const BatchRequest& request, int64_t world);

/// What is held out; null when there is nothing.
std::unique_ptr<BatchSource> validation_batches(const Experiment& experiment, const Prepared& prepared,
                                                const BatchRequest& request, int64_t world);

}  // namespace wmtp
