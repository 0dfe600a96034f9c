// Exports runs as TensorBoard event files: one folder per run, <id>-<name>, in a common folder.
//
// Metrics keep their names; memory/rank_R/allocated and .../resident are peak bytes so far. The options are columns of
// the hyperparameter table, and the resolved experiment is a text. Scalars are fp32, as always in TensorBoard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "log/log_reader.hpp"
#include "log/records.hpp"
#include "log/run_log.hpp"

namespace wmtp {

/// Creates `folder`, which must be absent or empty. Error(usage), Error(storage).
void export_tensorboard(const LogReader& log, const std::vector<int64_t>& runs, const std::filesystem::path& folder);

/// Exports a run while it is active, to a new file in `folder`. Creates nothing before the first record; after that,
/// failures are Error(storage). Does not write the run's status, which is known only when the log is closed.
std::unique_ptr<RecordSink> tensorboard_sink(const std::filesystem::path& folder, int64_t run_id,
                                             const RunStart& start);

}  // namespace wmtp
