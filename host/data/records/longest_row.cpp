#include "data/records/longest_row.hpp"

#include <algorithm>
#include <span>

#include "base/files.hpp"
#include "data/records/record_packs.hpp"
#include "data/records/record_plan.hpp"
#include "data/records/record_selection.hpp"
#include "data/records/records.hpp"
#include "io/prepared_folder.hpp"

namespace wmtp {
namespace {

constexpr int64_t max_bytes_read = int64_t{256} << 20;

}  // namespace

std::optional<RecordRows> training_rows(const Experiment& experiment, const std::filesystem::path& cache, bool pairs) {
  if (total_bytes(record_files(experiment).train) > max_bytes_read) return std::nullopt;
  const auto folder = records_folder(experiment, cache);
  const auto prepared = read_prepared(folder);
  if (!prepared || prepared->at("files").at(Records::index_name).get<int64_t>() > max_bytes_read) return std::nullopt;
  const Records records(folder, prepared->at("dtype") == "uint32", prepared->at("vocab_size").get<int64_t>());
  const auto length_of = [&](std::span<const int64_t> row) {
    int64_t length = 0;
    for (const int64_t record : row) length += records.entries()[size_t(record)].length;
    return length;
  };
  RecordRows rows{0, int64_t(records.entries().size())};
  const RecordSelection chosen = select_records(experiment, records, RecordPart::train, pairs);
  if (experiment.data.packing) {
    const RecordPacks packs(records.entries(), chosen.records.front(), experiment.train.sequence_length);
    rows.numbers = packs.count();
    for (int64_t pack = 0; pack < packs.count(); ++pack)
      rows.longest = std::max(rows.longest, length_of(packs.records(pack)));
  } else {
    for (const auto& bin : chosen.records)
      for (const int64_t& record : bin) rows.longest = std::max(rows.longest, length_of({&record, 1}));
  }
  return rows;
}

}  // namespace wmtp
