// base.json of a checkpoint whose run trains only a part of the model: how to make the model that it started from, so
// that checkpoint and base together are a complete model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

inline constexpr const char* base_model_name = "base.json";

struct BaseModel {
  int64_t format_version = 1;
  std::string weights;       ///< absolute path of the initial weights; "": all values are drawn from the seed
  std::string weights_hash;  ///< of their content
  int64_t seed = 0;
  std::string new_heads;           ///< as [model] new_heads
  bool token_heads = true;         ///< false for a critic
  std::string precision = "fp32";  ///< in which the run holds what it does not train
  std::string adapter;             ///< the plugin, with the options given in the experiment
  OptionValues options;
  int64_t last_blocks = 0;  ///< as TrainedParts
  std::vector<std::string> names;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BaseModel, format_version, weights, weights_hash, seed, new_heads, token_heads,
                                   precision, adapter, options, last_blocks, names)

/// Whether a folder is a checkpoint that is a complete model only together with its base.
bool is_partial_checkpoint(const std::filesystem::path& folder);

/// Error(data) if base.json is malformed, or was written by a later version.
BaseModel read_base_model(const std::filesystem::path& folder);

}  // namespace wmtp
