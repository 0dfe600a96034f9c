// Whole models in safetensors files with Meta's names: written at the end of a run, read for [model] weights, a
// reference, a stage. Tensor by tensor: no rank ever holds more than one group whole.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/formats/hf/initial_weights.hpp"
#include "core/formats/safetensors/safetensors.hpp"
#include "engine/comm/channels.hpp"
#include "engine/shard/sharded_model.hpp"

namespace wmtp {

/// What makes a model's ids out of text.
struct ModelTokenizer {
  std::string kind;            ///< "byte", "bpe", "tokenizer_json", or "" where the ids stand for themselves
  std::filesystem::path file;  ///< bpe: its pieces; tokenizer_json: its tokenizer.json
  nlohmann::json bos_token_id, eos_token_id;  ///< an id, a list of ids, or null where none is known
};

/// [all ranks, collective] Writes `folder` (model.safetensors in fp32, params.json, a tokenizer's files, and
/// manifest.json) with adapters merged into their slots, and publishes it. Returns the tensors' bytes on rank 0.
int64_t save_model(const std::filesystem::path& folder, int64_t step, const std::string& config_hash,
                   ShardedModel& model, const Adapter* adapter, const ModelTokenizer& tokenizer, Channels& channels);

/// [each rank, no communication] Fills the rank's own parts from a file or folder. Parameters of adapters, and of value
/// heads that train, keep their first values. Error(data) names a tensor that is missing, has another shape or dtype,
/// or that the model has no place for (heads that the model does without may be there).
void load_model(const std::filesystem::path& weights, ShardedModel& model);

/// The tokenizer that params.json names; kind "" where it names none. Error(data) where it is none that this program
/// knows, or its file is missing.
ModelTokenizer tokenizer_of(const std::filesystem::path& folder);

/// The value heads of a model that was saved here, without a meaning by an earlier version; none for other files.
std::vector<ValueHead> value_heads_of(const std::filesystem::path& folder);

}  // namespace wmtp
