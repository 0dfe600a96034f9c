// Pushes runs to an MLflow tracking server, through MLflow's own Python client, which must be installed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "log/log_reader.hpp"

namespace wmtp {

/// A run that the server has already is left as it is. Returns a line for each run. Error(usage) if Python or MLflow's
/// client is missing or the server refuses.
std::string push_mlflow(const LogReader& log, const std::vector<int64_t>& runs, const std::string& tracking_uri);

}  // namespace wmtp
