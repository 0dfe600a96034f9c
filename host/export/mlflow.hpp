// Exports runs to a new MLflow tracking database (`mlflow server --backend-store-uri sqlite:///FILE`) at the frozen
// schema revision in db/mlflow.sql, which MLflow 2.8 and later migrate when they open it.
//
// The experiment "wmtp-host" contains the runs. A run's id is 32 hexadecimal digits of SHA-256 over the log's path, the
// run's number and its start. MLflow has no infinities: they become the largest number, as in MLflow's own client; NaN
// sets is_nan. Memory uses the names of MLflow's system metrics: system/gpu_R_memory_usage_megabytes on a GPU (R: the
// rank), system/rank_R_memory_usage_megabytes for the process. Texts longer than MLflow allows are truncated with an
// ellipsis and reported.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "log/log_reader.hpp"

namespace wmtp {

/// Creates `file`, which must not exist. Returns the names of truncated texts: "run 3: parameter data.files".
/// Error(usage), Error(storage).
std::vector<std::string> export_mlflow(const LogReader& log, const std::vector<int64_t>& runs,
                                       const std::filesystem::path& file);

}  // namespace wmtp
