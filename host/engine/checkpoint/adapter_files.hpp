// What an adapter trained, without the model it stands beside: the folder adapter/ of a run, and the first values that
// [adapter] weights names. adapter.safetensors holds the declared parameters in fp32, by their full names; adapter.json
// says which plugin, options and base they are of; manifest.json is as in model/.
#pragma once

#include <filesystem>
#include <string>

#include "base/weight_fingerprint.hpp"
#include "core/checkpoints/adapter_identity.hpp"
#include "engine/comm/channels.hpp"
#include "engine/shard/sharded_model.hpp"

namespace wmtp {

/// Whether adapter/ says all that was trained of the model: the adapter declared parameters, and of the model's own
/// none trains. (Value heads are the pipeline's; they lie in model/.)
bool adapter_stands_alone(const ShardedModel& model);

/// [all ranks, collective] Writes and publishes `folder`.
void save_adapter(const std::filesystem::path& folder, int64_t step, const std::string& config_hash,
                  const AdapterIdentity& adapter, ShardedModel& model, Channels& channels);

/// [all ranks, collective] Fills the adapter's parameters from a folder that save_adapter wrote, after the model was
/// filled. Error(data) when a checksum differs, when it is of another plugin, of other options or of another base (both
/// are told), and when a tensor is missing, has another shape or has no place.
void load_adapter(const std::filesystem::path& folder, const AdapterIdentity& adapter, ShardedModel& model);

}  // namespace wmtp
