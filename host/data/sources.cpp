#include "data/sources.hpp"

#include "base/error.hpp"

namespace wmtp {
namespace {

std::unique_ptr<BatchSource> window_source(const Experiment& experiment, const TokenWindows& windows,
                                           const std::string& order, const BatchRequest& request) {
  return window_batches(windows, WindowOrder(experiment.seed, windows.count(), order), experiment.train.batch_size,
                        experiment.train.sequence_length, request);
}

}  // namespace

std::unique_ptr<BatchSource> training_batches(const Experiment& experiment, const Prepared& prepared,
                                              const BatchRequest& request, int64_t) {
  const std::string order = experiment.data.kind == "random" ? "sequential" : experiment.data.order;
  return window_source(experiment, *prepared.train, order, request);
}

std::unique_ptr<BatchSource> validation_batches(const Experiment& experiment, const Prepared& prepared,
                                                const BatchRequest& request, int64_t) {
  return prepared.validation ? window_source(experiment, *prepared.validation, "sequential", request) : nullptr;
}

}  // namespace wmtp
