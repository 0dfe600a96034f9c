// Runs as TensorBoard's event files: in a folder, one folder for each run, <id>-<name>, named as its files are.
//
// Metrics keep their names; memory/rank_R/allocated and .../resident are the most bytes so far. The options are columns
// of the table of hyperparameters, and the resolved experiment is a text. Numbers are fp32, as all of TensorBoard's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/runlog/log_reader.hpp"
#include "core/runlog/record_sink.hpp"
#include "core/runlog/run_log.hpp"

namespace wmtp {

/// Makes `folder`, which is not there yet or empty. Error(usage), Error(storage).
void export_tensorboard(const LogReader& log, const std::vector<int64_t>& runs, const std::filesystem::path& folder);

/// The same as a run goes on, in a new file of `folder`. Nothing is made before the first record; then, and later, a
/// failure is Error(storage). Without a word on how the run ended: that is known when the log is closed.
std::unique_ptr<RecordSink> tensorboard_sink(const std::filesystem::path& folder, int64_t run_id,
                                             const RunStart& start);

}  // namespace wmtp
