// The JSON object that describes the scaling of rotary positions: `rope_scaling`, or in newer transformers files
// `rope_parameters`, which also contains rope_theta.
#pragma once

#include <optional>

#include "base/json.hpp"
#include "experiment/experiment.hpp"
#include "huggingface/external_json.hpp"

namespace wmtp {

/// nullopt if the key is missing, null, or specifies no scaling. Records a mistake for a type other than "default",
/// "linear", "llama3" and "yarn", and for a key of the type that is missing, out of range, or has the wrong type.
std::optional<RopeScaling> read_rope_scaling(ExternalJson& keys, const char* key);

/// The rope_theta in the object `key`, else that of the file, else `fallback`.
double read_rope_theta(ExternalJson& keys, const char* key, double fallback);

Json rope_scaling_json(const RopeScaling& scaling);

}  // namespace wmtp
