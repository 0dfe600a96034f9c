// An Experiment as text: all keys, defaults included, in the schema's order; and the identity made from it.
#pragma once

#include <map>
#include <string>

#include "core/experiment/experiment.hpp"

namespace wmtp {

/// The resolved experiment as TOML that `load_experiment` reads back to an equal value (paths made absolute). A plugin's
/// option that nobody gave is a comment: some plugins refuse the mere mention of one that has no effect.
std::string to_toml(const Experiment& experiment);

/// What `config_hash` adds to the text: content hashes of data, tokenizer and weights, plugin versions, stages' hashes.
using IdentityParts = std::map<std::string, std::string>;

/// SHA-256 of the canonical text without name, [log], [checkpoint], processes, strategy, device and without any path
/// (content hashes in `parts` stand for what paths name).
std::string config_hash(const Experiment& experiment, const IdentityParts& parts);

/// The values of one table as they stand in that text; "" when it is not given.
std::string table_text(const Experiment& experiment, const std::string& table);

/// "train.batch_size" -> "4", for run_params.
std::map<std::string, OptionValue> flat_values(const Experiment& experiment);

}  // namespace wmtp
