// The source files of an experiment's records, and the cache folder of the prepared ones
// (data/torch/record_prepare.hpp).
#pragma once

#include <filesystem>

#include "data/records/record_file.hpp"
#include "data/tokens/corpus.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

inline constexpr int records_format = 8;

struct RecordPlan {
  RecordFiles files;
  RecordNeeds needs;
  std::filesystem::path folder;
  std::filesystem::path tokenizer;   ///< empty for "byte"
  std::filesystem::path arithmetic;  ///< empty without [data.arithmetic]
};

/// Reads and hashes every file. Error(data) if one is missing.
RecordPlan record_plan(const Experiment& experiment, const std::filesystem::path& cache);

/// Whether validation holds out one problem in twenty instead of reading its own files.
bool validates_by_problem(const Experiment& experiment);

/// The folder written by prepare_records. [any rank]
std::filesystem::path records_folder(const Experiment& experiment, const std::filesystem::path& cache);

/// The folder of their weights; that of the records does not depend on them.
std::filesystem::path weights_folder(const RecordPlan& plan);

}  // namespace wmtp
