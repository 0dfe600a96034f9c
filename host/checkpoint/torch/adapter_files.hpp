// The trained parameters of an adapter, without the model: written to adapter/ of a run and loaded by [adapter]
// weights. adapter.safetensors contains the declared parameters in fp32 under their full names; adapter.json names the
// plugin, options and base; manifest.json has the same form as in model/.
#pragma once

#include <filesystem>
#include <string>

#include "base/weight_fingerprint.hpp"
#include "checkpoint/adapter_identity.hpp"
#include "comm/torch/channels.hpp"
#include "shard/sharded_model.hpp"

namespace wmtp {

/// Whether adapter/ contains everything that was trained: the adapter declared parameters, and none of the model's own
/// parameters train. (Value heads belong to the pipeline and are saved in model/.)
bool only_adapter_trains(const ShardedModel& model);

/// [all ranks, collective] Writes and publishes `folder`.
void save_adapter(const std::filesystem::path& folder, int64_t step, const std::string& config_hash,
                  const AdapterIdentity& adapter, ShardedModel& model, Channels& channels);

/// [all ranks, collective] Fills the adapter's parameters from a folder written by save_adapter, or from a checkpoint
/// of a run with an adapter; the model must already be filled. Error(data) if a checksum differs, if plugin, options or
/// base differ (names both), or if a tensor is missing, misshapen or unexpected.
void load_adapter(const std::filesystem::path& folder, const AdapterIdentity& adapter, ShardedModel& model);

}  // namespace wmtp
