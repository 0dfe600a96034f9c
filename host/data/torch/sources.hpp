// Batches of an experiment, for every kind of data.
#pragma once

#include <cstdint>
#include <memory>

#include "data/torch/batches.hpp"
#include "data/torch/prepare.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

/// Training batches in the run's order. `prepared` must outlive the source. Error(usage) if the pipeline reads pairs
/// but the kind of data has none, or the batch size is odd; Error(data) if there are too few records for one step over
/// `world` ranks, or as select_records.
std::unique_ptr<BatchSource> training_batches(const Experiment& experiment, const Prepared& prepared,
                                              const BatchRequest& request, int64_t world);

/// Held-out batches; null if nothing is held out. The order of records does not depend on the seed. Errors as above.
std::unique_ptr<BatchSource> validation_batches(const Experiment& experiment, const Prepared& prepared,
                                                const BatchRequest& request);

}  // namespace wmtp
