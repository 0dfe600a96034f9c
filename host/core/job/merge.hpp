// What `wmtp-host checkpoint merge` asks of the engine: an adapter worked into the model that it was trained beside, by
// the plugin itself, as at the end of a run. Knows no LibTorch.
#pragma once

#include <filesystem>

#include "core/experiment/experiment.hpp"
#include "core/experiment/plugin_description.hpp"

namespace wmtp {

struct MergeRequest {
  std::filesystem::path adapter;  ///< as a run or `checkpoint import` leaves it
  std::filesystem::path base;     ///< with params.json
  std::filesystem::path target;   ///< not there yet
  PluginDescription plugin;       ///< the adapter's
  OptionValues options;
};

/// Writes `target`, a folder like a run's model/, with the base's tokenizer. Holds the whole model in fp32. Error(data)
/// when either folder is damaged, or the adapter is of another base, plugin or shape; Error(storage).
void merge_adapter(const MergeRequest& request);

/// The same, by loading the engine.
void merge_with_engine(const MergeRequest& request);

}  // namespace wmtp
