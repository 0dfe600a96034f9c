// Batches of an experiment, whatever its kind of data: who assembles a run need not know the kinds.
#pragma once

#include <cstdint>
#include <memory>

#include "core/experiment/experiment.hpp"
#include "engine/batches/batches.hpp"
#include "engine/prepare/prepare.hpp"

namespace wmtp {

/// What the run trains on, in the run's order. `prepared` outlives the source. Error(usage) when the pipeline wants
/// pairs that this kind of data has not, or of batches that are odd; Error(data) when records are too few for one step
/// over `world` ranks, or as select_records says.
std::unique_ptr<BatchSource> training_batches(const Experiment& experiment, const Prepared& prepared,
                                              const BatchRequest& request, int64_t world);

/// What is held out; null when there is nothing. Records come in an order that no seed changes. Errors as above.
std::unique_ptr<BatchSource> validation_batches(const Experiment& experiment, const Prepared& prepared,
                                                const BatchRequest& request);

}  // namespace wmtp
