// Identity of an experiment: the hash of its configuration and of the content of all its inputs.
//
// Digests of files are remembered in the cache folder (io/file_digests.hpp).
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "experiment/experiment.hpp"
#include "job/find_model.hpp"
#include "log/log_reader.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {

/// Where prepared data, frozen signals and digests are kept that runs of one log share.
inline std::filesystem::path cache_folder_path(const std::filesystem::path& database) {
  return database.parent_path() / "cache";
}

/// A trained stage: its experiment's hash and its run's model/.
struct Stage {
  std::string config_hash;
  std::filesystem::path model;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stage, config_hash, model)
/// The stages of one experiment, by the naming table: "model", "reference", "references.NAME", "value".
using Stages = std::map<std::string, Stage>;

/// The inputs of an experiment by name, each with a function that hashes it: data, tokenizer and weights by content (a
/// run's model by its manifest), plugins by name and version, stages by their own hashes in `stages`, and whether a
/// reference's own heads are read. The functions throw Error(data) or Error(plugin) if the input is missing, and refer
/// to the arguments.
using InputHashes = std::vector<std::pair<std::string, std::function<std::string()>>>;
InputHashes input_hashes(const Experiment& experiment, const Stages& stages, const Catalog& catalog,
                         const std::filesystem::path& database);

/// The hash of the experiment's text and of its inputs. Errors as above.
std::string experiment_hash(const Experiment& experiment, const Stages& stages, const Catalog& catalog,
                            const std::filesystem::path& database);

/// The newest finished run with this hash whose model/ passes verification; `since`: as in ResumeRule. `fits`: what
/// else is wanted of a run.
std::optional<RunInfo> reusable_run(const std::string& config_hash, const std::filesystem::path& database,
                                    const std::string& since = "",
                                    const std::function<bool(const LogReader&, int64_t run)>& fits = nullptr);

/// The plugins that the run loaded from another file than the one here of the same version, as "pipeline focal 1.0".
/// The hash of an experiment has their versions only.
std::vector<std::string> rebuilt_plugins(const LogReader& log, int64_t run, const Experiment& experiment,
                                         const Catalog& catalog);
/// The warning about one of them; `use`: "run 3 is of", "step-000040: it was saved with".
std::string rebuilt_text(const std::string& use, const std::string& plugin);

/// The folder of a run's finished model.
inline std::filesystem::path model_in(const std::filesystem::path& run_folder) { return run_folder / "model"; }

/// What an experiment names as weights: "run:RUN", as find_run_model takes it; a run's folder, a checkpoint, another
/// folder, or a file. Error(data) if there is none, or if the run is active and no step is named.
FoundModel find_weights(const std::string& weights, const Experiment& experiment,
                        const std::filesystem::path& database);

/// Its folder or file, which identifies it; find_complete_model is what can be read.
std::filesystem::path resolve_weights(const std::string& weights, const Experiment& experiment,
                                      const std::filesystem::path& database);

/// The folder of [adapter] weights: of a run its adapter/, or a checkpoint that holds an adapter. Error(data) if there
/// is none.
std::filesystem::path resolve_adapter(const Experiment& experiment, const std::filesystem::path& database);

/// SHA-256 of `weights`, a file or a folder: of the manifest, if there is one, because it contains checksums of all
/// data; otherwise of the names and contents of the folder's files. Of a file with its ShapeStatement, if there is one.
std::string weights_content_hash(const std::filesystem::path& weights, const std::filesystem::path& database);

}  // namespace wmtp
