#include "data/torch/sources.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <span>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "data/records/longest_row.hpp"
#include "data/records/record_order.hpp"
#include "data/records/record_packs.hpp"
#include "data/records/record_selection.hpp"
#include "data/tokens/step_count.hpp"
#include "data/torch/batch_rows.hpp"
#include "experiment/difficulty.hpp"
#include "plugins/torch/signals.hpp"

namespace wmtp {
namespace {

/// The possible draws: `rows` consecutive sequences of the run at a time, one record or a pair (right, wrong).
struct RecordDraws {
  int64_t rows = 1;
  std::vector<std::vector<int64_t>> records;  ///< lists of record or pack numbers, `rows` per draw
  std::vector<DifficultyRange> ranges;        ///< difficulty bins, for MicroBatch::bins
  std::vector<std::string> bins;              ///< their names
  std::optional<RecordPacks> packs;           ///< data.packing, of training
};

void check_answers(const Records& records, bool have_problems) {
  const auto lacking = [&](const auto& lacks) { return std::ranges::count_if(records.entries(), lacks); };
  const auto refuse = [](int64_t count, const std::string& field, const std::string& signal) {
    if (count > 0)
      throw Error(ExitStatus::data, "the pipeline reads " + signal + ", but " + counted(count, "record") +
                                        (count == 1 ? " lacks " : " lack ") + field + ": add it to every record");
  };
  const std::string signal = to_text(have_problems ? Signal::data_pass_rate : Signal::data_correct);
  refuse(lacking([](const RecordEntry& entry) { return entry.correct < 0; }), "is_correct", signal);
  if (have_problems) refuse(lacking([](const RecordEntry& entry) { return entry.problem < 0; }), "task_id", signal);
}

/// The share of right answers to each problem, of all prepared records.
std::map<int64_t, float> pass_rates(const Records& records) {
  std::map<int64_t, std::pair<int64_t, int64_t>> answers;  // right ones, and all
  for (const RecordEntry& entry : records.entries()) {
    answers[entry.problem].first += entry.correct;
    ++answers[entry.problem].second;
  }
  std::map<int64_t, float> rates;
  for (const auto& [problem, of_problem] : answers) rates[problem] = float(of_problem.first) / float(of_problem.second);
  return rates;
}

/// Position of a draw in RecordDraws::records.
struct BinPosition {
  size_t list;
  int64_t index;
};
/// The order of a run, by draw index (sequence / rows).
using RecordOrder = std::function<BinPosition(int64_t)>;

/// Batches of prompt, answer, padding. The length is that of the longest row on any rank, rounded up to a multiple of
/// 16: every rank has the index, so this needs no communication.
class RecordBatches final : public BatchSource {
 public:
  RecordBatches(const Experiment& experiment, const Records& records, RecordDraws draws, RecordOrder order,
                const BatchRequest& request)
      : BatchSource(experiment.train.batch_size),
        records_(records),
        draws_(std::move(draws)),
        order_(std::move(order)),
        sequence_length_(experiment.train.sequence_length),
        request_(request) {
    if (std::ranges::count(request.signals, Signal::data_correct) > 0) check_answers(records, /*have_problems=*/false);
    if (std::ranges::count(request.signals, Signal::data_pass_rate) == 0) return;
    check_answers(records, /*have_problems=*/true);
    pass_rates_ = pass_rates(records);
  }

  int64_t count() const override {
    int64_t count = 0;
    for (const auto& list : draws_.records) count += int64_t(list.size());
    return count;
  }

  int64_t windows() const override { return draws_.packs ? draws_.packs->count() : int64_t(records_.entries().size()); }

  std::vector<std::string> bins() const override { return draws_.bins; }

  MicroBatch fetch(const std::vector<int64_t>& sequences, int64_t rank, int64_t world) const override {
    std::vector<int64_t> drawn;
    for (const int64_t sequence : sequences) drawn.push_back(sequence < 0 ? -1 : draw_at(sequence));
    BatchRows rows(sequences, rank, world, length_of(drawn), request_, draws_.packs.has_value());
    MicroBatch& micro = rows.micro();
    std::copy_n(drawn.begin() + rank * rows.count(), rows.count(), micro.windows.begin());
    for (int64_t b = 0; b < rows.count(); ++b) {
      int64_t begin = 0;
      for (const int64_t record : records_of(micro.windows[size_t(b)])) {
        const RecordEntry& entry = records_.entries()[size_t(record)];
        records_.read(record, rows.ids(b) + begin);
        records_.kinds(record, rows.kinds(b) + begin);
        rows.add_document(b, begin, entry.length);
        add_signals(record, begin, b, rows);
        begin += entry.length;
      }
      if (begin > 0 && !draws_.packs) label(b, micro);
    }
    if (request_.pairs) micro.pairs = std::count_if(micro.windows.begin(), micro.windows.end(), is_record) / 2;
    return rows.finish();
  }

 private:
  static bool is_record(int64_t record) { return record >= 0; }

  /// The record or pack of a sequence in the run's order.
  int64_t draw_at(int64_t sequence) const {
    const BinPosition place = order_(sequence / draws_.rows);
    return draws_.records[place.list][size_t(place.index * draws_.rows + sequence % draws_.rows)];
  }

  /// The records of a row, none for padding.
  std::span<const int64_t> records_of(const int64_t& drawn) const {
    if (drawn < 0) return {};
    return draws_.packs ? draws_.packs->records(drawn) : std::span(&drawn, 1);
  }

  int64_t length_of(const std::vector<int64_t>& drawn) const {
    int64_t longest = least_positions(request_.last_offset(), request_.parts);
    for (const int64_t& row : drawn) {
      int64_t length = 0;
      for (const int64_t record : records_of(row)) length += records_.entries()[size_t(record)].length;
      longest = std::max(longest, length);
    }
    return batch_positions(longest, sequence_length_);
  }

  void add_signals(int64_t record, int64_t begin, int64_t row, BatchRows& rows) const {
    const RecordEntry& entry = records_.entries()[size_t(record)];
    for (const Signal signal : request_.signals) {
      if (signal == Signal::data_bytes) continue;  // of the token, not of the record
      float* const values = rows.signal(signal, row) + begin;
      if (signal == Signal::data_weight)
        records_.weights(record, values);
      else
        std::fill_n(values, entry.length,
                    signal == Signal::data_correct ? float(entry.correct) : pass_rates_.at(entry.problem));
    }
  }

  /// The properties of a row that is one record.
  void label(int64_t row, MicroBatch& micro) const {
    const RecordEntry& entry = records_.entries()[size_t(micro.windows[size_t(row)])];
    micro.batch.correct.mutable_data_ptr<int64_t>()[row] = entry.correct;
    if (request_.pairs) micro.batch.partner.mutable_data_ptr<int64_t>()[row] = row ^ 1;
    micro.bins[size_t(row)] = bin_of(draws_.ranges, entry.difficulty);
  }

  const Records& records_;
  RecordDraws draws_;
  RecordOrder order_;
  int64_t sequence_length_;
  BatchRequest request_;
  std::map<int64_t, float> pass_rates_;  ///< by problem
};

std::unique_ptr<BatchSource> window_source(const Experiment& experiment, const TokenWindows& windows, DataOrder order,
                                           const BatchRequest& request, const Tokenizer* tokenizer) {
  std::optional<int64_t> end_of_text;
  if (experiment.data.packing && tokenizer) end_of_text = tokenizer->end_of_text();
  return window_batches(windows, WindowOrder(experiment.seed, windows.count(), order), experiment.train.batch_size,
                        experiment.train.sequence_length, request, end_of_text);
}

void check_pairs(const Experiment& experiment, const BatchRequest& request) {
  if (!request.pairs) return;
  if (experiment.data.kind != DataKind::records)
    throw Error(ExitStatus::usage, "the pipeline reads pairs of a right and a wrong answer, which data of kind \"" +
                                       std::string(to_string(experiment.data.kind)) +
                                       "\" does not have; use kind \"records\"");
  if (experiment.train.batch_size % 2 != 0)
    throw Error(ExitStatus::usage, "the pipeline reads pairs of two sequences: found train.batch_size " +
                                       std::to_string(experiment.train.batch_size) + ", wanted an even number");
}

RecordDraws make_draws(const Experiment& experiment, const Records& records, RecordPart part, bool pairs) {
  RecordSelection selection = select_records(experiment, records, part, pairs);
  RecordDraws draws{pairs ? 2 : 1, std::move(selection.records), std::move(selection.ranges),
                    experiment.data.difficulty.bins, std::nullopt};
  if (experiment.data.packing && part == RecordPart::train) {
    std::vector<int64_t>& only = draws.records.front();
    draws.packs.emplace(records.entries(), only, experiment.train.sequence_length);
    only.resize(size_t(draws.packs->count()));
    std::iota(only.begin(), only.end(), 0);
  }
  return draws;
}

std::vector<int64_t> sizes_of(const RecordDraws& draws) {
  std::vector<int64_t> sizes;
  for (const auto& list : draws.records) sizes.push_back(int64_t(list.size()) / draws.rows);
  return sizes;
}

/// Number of draws in the run, at most 10^18.
int64_t draws_in_run(const Experiment& experiment, int64_t count, int64_t rows, int64_t world) {
  const double steps = double(num_steps(experiment.train, count, world));
  const double draws = steps * double(sequences_per_step(experiment.train, world)) / double(rows);
  return draws < 1e18 ? int64_t(draws) : int64_t{1'000'000'000'000'000'000};
}

RecordOrder training_order(const Experiment& experiment, const RecordDraws& draws, int64_t count, int64_t world) {
  const std::vector<int64_t> sizes = sizes_of(draws);
  const int64_t seed = experiment.seed;
  if (draws.ranges.empty()) {
    return [order = WindowOrder(seed, sizes[0], experiment.data.order)](int64_t draw) {
      return BinPosition{0, order.window(draw)};
    };
  }
  const DifficultyConfig& difficulty = experiment.data.difficulty;
  std::vector<WindowOrder> orders;
  for (size_t bin = 0; bin < sizes.size(); ++bin)
    orders.emplace_back(int64_t(hash64(uint64_t(seed), bin) >> 1), sizes[bin], DataOrder::shuffled);
  const BinOrder bins(seed, difficulty.weights, difficulty.end_weights,
                      draws_in_run(experiment, count, draws.rows, world));
  return [bins, orders](int64_t draw) {
    const BinOrder::Draw drawn = bins.at(draw);
    return BinPosition{size_t(drawn.bin), orders[size_t(drawn.bin)].window(drawn.drawn)};
  };
}

/// Concatenates the lists of all bins. In file order unless shuffled.
RecordOrder validation_order(const Experiment& experiment, RecordDraws& draws) {
  std::vector<int64_t> all;
  for (const auto& list : draws.records) all.insert(all.end(), list.begin(), list.end());
  const int64_t count = int64_t(all.size()) / draws.rows;
  draws.records = {std::move(all)};
  return [order = WindowOrder(0, count, experiment.data.order)](int64_t draw) {
    return BinPosition{0, order.window(draw)};
  };
}

std::unique_ptr<BatchSource> training_records(const Experiment& experiment, const Records& records,
                                              const BatchRequest& request, int64_t world) {
  RecordDraws draws = make_draws(experiment, records, RecordPart::train, request.pairs);
  int64_t count = 0;
  for (const auto& list : draws.records) count += int64_t(list.size());
  check_fills_a_step(experiment.train, count, world,
                     (count == 1 ? "there is " : "there are ") + counted(count, "sequence") + " to train on" +
                         (request.pairs ? " (two for each pair of answers)"
                          : draws.packs ? " of packed records"
                                        : ""),
                     "records");
  RecordOrder order = training_order(experiment, draws, count, world);
  return std::make_unique<RecordBatches>(experiment, records, std::move(draws), std::move(order), request);
}

std::unique_ptr<BatchSource> validation_records(const Experiment& experiment, const Records& records,
                                                const BatchRequest& request) {
  RecordDraws draws = make_draws(experiment, records, RecordPart::validation, request.pairs);
  RecordOrder order = validation_order(experiment, draws);
  return std::make_unique<RecordBatches>(experiment, records, std::move(draws), std::move(order), request);
}

}  // namespace

std::unique_ptr<BatchSource> training_batches(const Experiment& experiment, const Prepared& prepared,
                                              const BatchRequest& request, int64_t world) {
  check_pairs(experiment, request);
  if (prepared.records) return training_records(experiment, *prepared.records, request, world);
  const bool is_random = experiment.data.kind == DataKind::random;
  const DataOrder order = is_random ? DataOrder::sequential : experiment.data.order;
  return window_source(experiment, *prepared.train, order, request, prepared.tokenizer.get());
}

std::unique_ptr<BatchSource> validation_batches(const Experiment& experiment, const Prepared& prepared,
                                                const BatchRequest& request) {
  check_pairs(experiment, request);
  if (prepared.records)
    return experiment.validation.given ? validation_records(experiment, *prepared.records, request) : nullptr;
  return prepared.validation
             ? window_source(experiment, *prepared.validation, DataOrder::sequential, request, prepared.tokenizer.get())
             : nullptr;
}

}  // namespace wmtp
