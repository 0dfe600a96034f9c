// The parameters of a model as numbers: how many there are in each unit, and what stands in its linear layers. Made by
// the engine from the same layout that a run has (engine/model/layout.hpp), in a child process; knows no LibTorch itself.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/experiment/experiment.hpp"
#include "core/experiment/plugin_description.hpp"

namespace wmtp {

/// Which model is asked about: as LayoutRequest in engine/model/layout.hpp.
struct LayoutQuestion {
  ModelConfig model;                                             ///< its shape; first weights do not matter
  std::string heads = "all";                                     ///< token heads: "all", "first" or "none"
  std::vector<std::pair<std::string, std::string>> value_heads;  ///< name and kind
  std::optional<PluginSetting> adapter;                          ///< nothing: the model is frozen
};

/// Parameters that are stored and gathered together.
struct PlannedGroup {
  int64_t parameters = 0;
  int64_t elements = 0;  ///< with the padding between parameters, without that at the end
};

/// A linear layer of a block.
struct PlannedSlot {
  int64_t in = 0, out = 0;
  bool trains = false;
  std::vector<std::pair<int64_t, int64_t>> beside;  ///< [rows, columns] of what the adapter declares here
};

struct PlannedUnit {
  std::string name;
  bool always_fp32 = false;
  PlannedGroup trained, frozen;
  std::vector<PlannedSlot> slots;  ///< of blocks: wq, wk, wv, wo, w1, w2, w3
};

using PlannedLayout = std::vector<PlannedUnit>;

/// Throws std::exception when a key is missing or of another type.
nlohmann::json to_json(const LayoutQuestion& question);
LayoutQuestion layout_question_from_json(const nlohmann::json& json);
nlohmann::json to_json(const PlannedLayout& layout);
PlannedLayout planned_layout_from_json(const nlohmann::json& json);

}  // namespace wmtp
