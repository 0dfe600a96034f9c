#include "core/records/longest_record.hpp"

#include "base/files.hpp"
#include "core/records/record_plan.hpp"
#include "core/records/record_selection.hpp"
#include "core/records/records.hpp"
#include "io/prepared_folder.hpp"

namespace wmtp {
namespace {

constexpr int64_t most_bytes_read = int64_t{256} << 20;

/// Whether anything is drawn from a bin, at any time of the run.
bool is_drawn(const DifficultyConfig& difficulty, size_t bin) {
  if (!difficulty.given) return true;
  return difficulty.weights.at(bin) > 0 || difficulty.end_weights.at(bin) > 0;
}

}  // namespace

std::optional<int64_t> longest_record(const Experiment& experiment, const std::filesystem::path& cache, bool pairs) {
  if (total_bytes(record_files(experiment).train) > most_bytes_read) return std::nullopt;
  const auto folder = records_folder(experiment, cache);
  const auto prepared = read_prepared(folder);
  if (!prepared || prepared->at("files").at(Records::index_name).get<int64_t>() > most_bytes_read) return std::nullopt;
  const Records records(folder, prepared->at("dtype") == "uint32", prepared->at("vocab_size").get<int64_t>());
  int64_t longest = 0;
  const RecordSelection selection = select_records(experiment, records, RecordPart::train, pairs);
  for (size_t bin = 0; bin < selection.records.size(); ++bin)
    if (is_drawn(experiment.data.difficulty, bin))
      for (const int64_t record : selection.records[bin])
        longest = std::max<int64_t>(longest, records.entries()[size_t(record)].length);
  return longest;
}

}  // namespace wmtp
