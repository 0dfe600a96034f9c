// What a run with an adapter trained, without the frozen rest: written to adapter/ of a run and loaded by [adapter]
// weights. adapter.safetensors contains, in fp32 under their full names, the parameters that the adapter declared and
// those of the model that trained beside them; adapter.json names the plugin, options and base; manifest.json has the
// same form as in model/. (Value heads belong to the pipeline and are saved in model/.)
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/weight_fingerprint.hpp"
#include "checkpoint/adapter_identity.hpp"
#include "comm/torch/channels.hpp"
#include "shard/sharded_model.hpp"

namespace wmtp {

/// [all ranks, collective] Writes and publishes `folder`. Gathers one parameter group after another.
void save_adapter(const std::filesystem::path& folder, int64_t step, const std::string& config_hash,
                  const AdapterIdentity& adapter, ShardedModel& model);

/// [all ranks, collective] Fills what save_adapter wrote from such a folder, or from a checkpoint of a run with an
/// adapter; the model must already be filled. Error(data) if a checksum differs, if plugin, options or base differ
/// (names both), or if a tensor is missing, misshapen or unexpected.
void load_adapter(const std::filesystem::path& folder, const AdapterIdentity& adapter, ShardedModel& model);

/// The model's own parameters that an adapter's folder contains.
std::vector<std::string> trained_parameters_in(const std::filesystem::path& folder, const ModelConfig& model);

}  // namespace wmtp
