// The object by which a model's files say how its rotary positions are stretched: `rope_scaling`, in newer files of
// transformers `rope_parameters`, where rope_theta stands too. Knows no LibTorch.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "core/experiment/experiment.hpp"
#include "core/formats/hf/external_json.hpp"

namespace wmtp {

/// Nothing where the key is missing, null, or asks for no scaling. Notes a mistake where its type is neither "default",
/// "linear" nor "llama3", where a key of the type is missing or out of range, and where there is one of another type.
std::optional<RopeScaling> read_rope_scaling(ForeignKeys& keys, const char* key);

/// The keys of the scaling's type.
nlohmann::json rope_scaling_json(const RopeScaling& scaling);

}  // namespace wmtp
