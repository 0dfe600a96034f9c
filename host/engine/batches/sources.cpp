#include "engine/batches/sources.hpp"

#include "base/counted.hpp"
#include "base/error.hpp"
#include "base/hash64.hpp"
#include "base/text.hpp"
#include "core/corpus/step_count.hpp"
#include "core/records/record_order.hpp"
#include "core/records/record_selection.hpp"
#include "engine/batches/record_batches.hpp"

namespace wmtp {
namespace {

std::unique_ptr<BatchSource> window_source(const Experiment& experiment, const TokenWindows& windows,
                                           const std::string& order, const BatchRequest& request) {
  return window_batches(windows, WindowOrder(experiment.seed, windows.count(), order), experiment.train.batch_size,
                        experiment.train.sequence_length, request);
}

void check_pairs(const Experiment& experiment, const BatchRequest& request) {
  if (!request.pairs) return;
  if (experiment.data.kind != "records")
    throw Error(ExitStatus::usage, "the pipeline reads pairs of a right and a wrong answer, which data of kind \"" +
                                       experiment.data.kind + "\" has not; use kind \"records\"");
  if (experiment.train.batch_size % 2 != 0)
    throw Error(ExitStatus::usage,
                "the pipeline reads pairs, so two sequences belong together: found train.batch_size " +
                    std::to_string(experiment.train.batch_size) + ", wanted an even number");
}

RecordDraws draws_of(const Experiment& experiment, RecordSelection selection, bool pairs) {
  return {pairs ? 2 : 1, std::move(selection.records), std::move(selection.ranges), experiment.data.difficulty.bins};
}

std::vector<int64_t> sizes_of(const RecordDraws& draws) {
  std::vector<int64_t> sizes;
  for (const auto& list : draws.records) sizes.push_back(static_cast<int64_t>(list.size()) / draws.rows);
  return sizes;
}

/// Of the whole run; what does not fit 64 bits is more than a run can draw.
int64_t draws_in_run(const Experiment& experiment, int64_t count, int64_t rows, int64_t world) {
  const double steps = static_cast<double>(num_steps(experiment.train, count, world));
  const double draws =
      steps * static_cast<double>(sequences_per_step(experiment.train, world)) / static_cast<double>(rows);
  return draws < 1e18 ? static_cast<int64_t>(draws) : int64_t{1'000'000'000'000'000'000};
}

RecordOrder training_order(const Experiment& experiment, const RecordDraws& draws, int64_t count, int64_t world) {
  const std::vector<int64_t> sizes = sizes_of(draws);
  const int64_t seed = experiment.seed;
  if (draws.ranges.empty()) {
    return [order = WindowOrder(seed, sizes[0], experiment.data.order)](int64_t draw) {
      return RecordPlace{0, order.window(draw)};
    };
  }
  const DifficultyConfig& difficulty = experiment.data.difficulty;
  std::vector<WindowOrder> orders;
  for (size_t bin = 0; bin < sizes.size(); ++bin)
    orders.emplace_back(static_cast<int64_t>(hash64(static_cast<uint64_t>(seed), bin) >> 1), sizes[bin], "shuffled");
  const BinOrder bins(seed, difficulty.weights, difficulty.end_weights,
                      draws_in_run(experiment, count, draws.rows, world));
  return [bins, orders](int64_t draw) {
    const BinOrder::Draw drawn = bins.at(draw);
    return RecordPlace{static_cast<size_t>(drawn.bin), orders[static_cast<size_t>(drawn.bin)].window(drawn.drawn)};
  };
}

/// Every list in one, in the order of the files unless shuffled: the first batches then show all of it.
RecordOrder validation_order(const Experiment& experiment, RecordDraws& draws) {
  std::vector<int64_t> all;
  for (const auto& list : draws.records) all.insert(all.end(), list.begin(), list.end());
  const int64_t count = static_cast<int64_t>(all.size()) / draws.rows;
  draws.records = {std::move(all)};
  return [order = WindowOrder(0, count, experiment.data.order)](int64_t draw) {
    return RecordPlace{0, order.window(draw)};
  };
}

void check_fills_a_step(const Experiment& experiment, int64_t count, const BatchRequest& request, int64_t world) {
  const TrainConfig& train = experiment.train;
  const int64_t wanted = sequences_per_step(train, world);
  if (count >= wanted) return;
  throw Error(ExitStatus::data, (count == 1 ? "there is " : "there are ") + counted(count, "sequence") +
                                    " to train on" + (request.pairs ? " (two for each pair of answers)" : "") +
                                    ", but one step needs " + with_thousands(wanted) + " (" + counted(world, "rank") +
                                    " x batch_size " + std::to_string(train.batch_size) + " x gradient_accumulation " +
                                    std::to_string(train.gradient_accumulation) +
                                    "); use fewer ranks, a smaller batch, or more records");
}

std::unique_ptr<BatchSource> records_to_train_on(const Experiment& experiment, const Records& records,
                                                 const BatchRequest& request, int64_t world) {
  RecordDraws draws =
      draws_of(experiment, select_records(experiment, records, RecordPart::train, request.pairs), request.pairs);
  int64_t count = 0;
  for (const auto& list : draws.records) count += static_cast<int64_t>(list.size());
  check_fills_a_step(experiment, count, request, world);
  RecordOrder order = training_order(experiment, draws, count, world);
  return record_batches(records, std::move(draws), std::move(order), experiment.train.batch_size,
                        experiment.train.sequence_length, request);
}

std::unique_ptr<BatchSource> records_to_validate_with(const Experiment& experiment, const Records& records,
                                                      const BatchRequest& request) {
  RecordDraws draws =
      draws_of(experiment, select_records(experiment, records, RecordPart::validation, request.pairs), request.pairs);
  RecordOrder order = validation_order(experiment, draws);
  return record_batches(records, std::move(draws), std::move(order), experiment.train.batch_size,
                        experiment.train.sequence_length, request);
}

}  // namespace

std::unique_ptr<BatchSource> training_batches(const Experiment& experiment, const Prepared& prepared,
                                              const BatchRequest& request, int64_t world) {
  check_pairs(experiment, request);
  if (prepared.records) return records_to_train_on(experiment, *prepared.records, request, world);
  const std::string order = experiment.data.kind == "random" ? "sequential" : experiment.data.order;
  return window_source(experiment, *prepared.train, order, request);
}

std::unique_ptr<BatchSource> validation_batches(const Experiment& experiment, const Prepared& prepared,
                                                const BatchRequest& request) {
  check_pairs(experiment, request);
  if (prepared.records)
    return experiment.validation.given ? records_to_validate_with(experiment, *prepared.records, request) : nullptr;
  return prepared.validation ? window_source(experiment, *prepared.validation, "sequential", request) : nullptr;
}

}  // namespace wmtp
