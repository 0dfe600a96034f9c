// The canonical text of an Experiment (all keys including defaults, in schema order) and its hash.
#pragma once

#include <map>
#include <string>

#include "experiment/experiment.hpp"

namespace wmtp {

/// The resolved experiment as TOML that `load_experiment` reads back to an equal value (with absolute paths). Default
/// values of plugin options are commented out, because some plugins refuse an option that has no effect.
std::string to_toml(const Experiment& experiment);

/// to_toml, each line with a comment that tells what stated the value.
std::string to_toml_with_origins(const Experiment& experiment);

/// Additional input of `config_hash`: content hashes of data, tokenizer and weights; plugin versions; stage hashes.
using IdentityParts = std::map<std::string, std::string>;

/// SHA-256 of the canonical text without name, [log], [checkpoint], processes, strategy, device and all paths (`parts`
/// has content hashes instead).
std::string config_hash(const Experiment& experiment, const IdentityParts& parts);

/// One table of the canonical text; "" if it is not given.
std::string table_text(const Experiment& experiment, const std::string& table);

/// "train.batch_size" -> 4, for run_params.
std::map<std::string, Value> flat_values(const Experiment& experiment);
/// Those in the canonical text that config_hash hashes.
std::map<std::string, Value> identity_values(const Experiment& experiment);

}  // namespace wmtp
