// Finished runs that need not be trained again, and what they were made with that their hash does not show.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.hpp"
#include "log/log_reader.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {

/// How one of several runs ended.
struct RunEnd {
  int64_t run = 0;  ///< the finished run, or the diverged one that is kept; 0: none
  int code = 0;     ///< exit code of the last attempt; 5 of a diverged run that is kept
};

/// The ranks of a logged run that read different sequences.
int64_t data_ranks_of(const LogReader& log, int64_t run);

/// Whether the steps of a logged run with the experiment's hash read as many sequences as the experiment's do here. The
/// hash does not tell the number of ranks, on which that depends without train.global_batch_size.
bool reads_as_many(const LogReader& log, int64_t run, const Experiment& experiment);

using RunFilter = std::function<bool(const LogReader&, int64_t run)>;
/// The newest finished run with this hash whose model/ passes verification; `since`: as in ResumeRule. `fits`: what
/// else is wanted of a run.
std::optional<RunInfo> reusable_run(const std::string& config_hash, const std::filesystem::path& database,
                                    const std::string& since = "", const RunFilter& fits = nullptr);

/// By which settings the newest run of the experiment's name has another configuration: "; the newest run of its name,
/// 3, has optimizer.lr = 0.001 (here 0.002)"; "" without a run of that name.
std::string difference_from_newest(const LogReader& log, const Experiment& experiment);

/// The plugins that the run loaded from another file than the one here of the same version, as "pipeline focal 1.0".
/// The hash of an experiment has their versions only.
std::vector<std::string> rebuilt_plugins(const LogReader& log, int64_t run, const Experiment& experiment,
                                         const Catalog& catalog);
/// The warning about one of them; `use`: "run 3 is of", "step-000040: it was saved with".
std::string rebuilt_text(const std::string& use, const std::string& plugin);

}  // namespace wmtp
