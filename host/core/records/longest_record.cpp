#include "core/records/longest_record.hpp"

#include "base/files.hpp"
#include "core/records/record_plan.hpp"
#include "core/records/record_selection.hpp"
#include "core/records/records.hpp"
#include "io/prepared_folder.hpp"

namespace wmtp {
namespace {

constexpr int64_t most_bytes_read = int64_t{256} << 20;

}  // namespace

std::optional<int64_t> longest_record(const Experiment& experiment, const std::filesystem::path& cache, bool pairs) {
  if (total_bytes(record_files(experiment).train) > most_bytes_read) return std::nullopt;
  const auto folder = records_folder(experiment, cache);
  const auto prepared = read_prepared(folder);
  if (!prepared || prepared->at("files").at(Records::index_name).get<int64_t>() > most_bytes_read) return std::nullopt;
  const Records records(folder, prepared->at("dtype") == "uint32", prepared->at("vocab_size").get<int64_t>());
  int64_t longest = 0;
  for (const auto& bin : select_records(experiment, records, RecordPart::train, pairs).records)
    for (const int64_t record : bin) longest = std::max<int64_t>(longest, records.entries()[size_t(record)].length);
  return longest;
}

}  // namespace wmtp
