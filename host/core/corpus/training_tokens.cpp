#include "core/corpus/training_tokens.hpp"

#include <cstdint>

#include "base/counted.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "core/corpus/step_count.hpp"

namespace wmtp {
namespace {

void check_fills_the_run(const Experiment& experiment, int64_t num_windows, int64_t world_size) {
  const TrainConfig& train = experiment.train;
  if (train.epochs > 0) return;
  const int64_t each = sequences_per_step(train, world_size);
  if (train.steps <= num_windows / each) return;
  const double wanted = static_cast<double>(train.steps) * static_cast<double>(each);
  throw Error(ExitStatus::data, experiment.data.file + " has " + counted(num_windows, "window") + " of " +
                                    with_thousands(train.sequence_length) + " ids, but " +
                                    counted(train.steps, "step") + " of " + with_thousands(each) + " need " +
                                    with_thousands(wanted < 9e18 ? static_cast<int64_t>(wanted) : INT64_MAX) +
                                    "; lower train.steps to " + with_thousands(num_windows / each) +
                                    ", or say with train.epochs how often to go round");
}

}  // namespace

std::unique_ptr<TokenWindows> open_training_tokens(const Experiment& experiment, int64_t world_size) {
  auto windows = open_token_file(experiment.resolve(experiment.data.file), experiment.data.dtype,
                                 experiment.train.sequence_length, experiment.model.vocab_size);
  check_fills_the_run(experiment, windows->count(), world_size);
  return windows;
}

}  // namespace wmtp
