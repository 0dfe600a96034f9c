// Parameter counts and linear layers of a model, by unit. The engine answers layout questions in a child process, using
// the same layout as runs (model/torch/units.hpp).
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiment/model_shape.hpp"
#include "plugins/description_json.hpp"

namespace wmtp {

/// Like LayoutRequest in model/torch/units.hpp.
struct LayoutQuestion {
  ModelConfig model;                                             ///< shape; initial weights do not matter
  std::string heads = "all";                                     ///< token heads: "all", "first" or "none"
  std::vector<std::pair<std::string, std::string>> value_heads;  ///< name and kind
  std::optional<PluginSetting> adapter;                          ///< nullopt: the model is frozen
  std::string optimizer = OptimizerConfig().name;
  int64_t train_last = 0;  ///< TrainedParts
  std::vector<std::string> train = {};
  std::vector<std::string> groups = {};  ///< patterns of [[optimizer.groups]], checked by the engine
};

/// Parameters stored and gathered together.
struct PlannedGroup {
  int64_t parameters = 0;
  int64_t elements = 0;                                    ///< with padding between parameters, but not at the end
  std::vector<std::pair<int64_t, int64_t>> matrices = {};  ///< rows and columns of those that Muon updates
};

/// A linear layer of a block.
struct PlannedSlot {
  int layer = 0;  ///< a Layer of model/block.hpp
  int64_t in = 0, out = 0;
  bool trains = false, has_bias = false;
  std::vector<std::pair<int64_t, int64_t>> adapter_params;  ///< [rows, columns] of the adapter's matrices
};

struct PlannedUnit {
  std::string name;
  bool always_fp32 = false;
  PlannedGroup trained, frozen;
  std::vector<PlannedSlot> slots;  ///< for blocks: the linear layers of model/block.hpp
};

using PlannedLayout = std::vector<PlannedUnit>;

// Conversions from JSON throw std::exception if a key is missing or has the wrong type.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlannedGroup, parameters, elements, matrices)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlannedSlot, layer, in, out, trains, has_bias, adapter_params)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlannedUnit, name, always_fp32, trained, frozen, slots)
/// The shape.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelConfig, dim, layers, heads, kv_heads, ffn_dim, vocab_size, future_tokens,
                                   future_heads, qkv_bias, o_bias, qk_norm, joint_qk_norm, post_norm, head_dim,
                                   sliding_window, no_rope_layer_interval, tie_word_embeddings)
static_assert(std::size(shape_options) == 9, "name a new option in the line above, too");
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LayoutQuestion, model, heads, value_heads, adapter, optimizer, train_last, train,
                                   groups)

}  // namespace wmtp
