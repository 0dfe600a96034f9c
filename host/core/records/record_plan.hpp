// What an experiment's records are made from, and where they are kept when they are made (record_prepare.hpp). Knows no
// LibTorch.
#pragma once

#include <filesystem>

#include "core/corpus/corpus.hpp"
#include "core/experiment/experiment.hpp"
#include "core/records/record_file.hpp"

namespace wmtp {

inline constexpr int records_format = 1;

struct RecordPlan {
  RecordFiles files;
  RecordNeeds needs;
  std::filesystem::path folder;
  std::filesystem::path tokenizer;   ///< empty for "byte"
  std::filesystem::path arithmetic;  ///< empty without [data.arithmetic]
};

/// Reads every file once, to know its content. Error(data) when one is missing.
RecordPlan record_plan(const Experiment& experiment, const std::filesystem::path& cache);

/// Whether validation has one problem in twenty, not files of its own.
bool validates_by_problem(const Experiment& experiment);

/// Where prepare_records keeps them. [any rank]
std::filesystem::path records_folder(const Experiment& experiment, const std::filesystem::path& cache);

}  // namespace wmtp
