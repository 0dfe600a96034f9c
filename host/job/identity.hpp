// Identity of an experiment: the hash of its configuration and of the content of all its inputs.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "experiment/experiment.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {

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

}  // namespace wmtp
