// Complete models in safetensors files with Meta's names: written at the end of a run, loaded for [model] weights, a
// reference or a stage. Processed tensor by tensor; no rank gathers more than one set of parameters at a time.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/json.hpp"
#include "checkpoint/safetensors/safetensors.hpp"
#include "comm/torch/channels.hpp"
#include "huggingface/initial_weights.hpp"
#include "huggingface/params_file.hpp"
#include "shard/whole_parameters.hpp"

namespace wmtp {

struct ModelTokenizer {
  SavedTokenizer kind = SavedTokenizer::none;  ///< none: the model has only ids
  std::filesystem::path file;                  ///< bpe: the SentencePiece model; tokenizer_json: the tokenizer.json
  Json bos_token_id, eos_token_id;             ///< an id, a list of ids, or null if unknown
  std::string prompt_template = {};            ///< SavedShape::prompt_template
  std::string left_out = {};                   ///< why a tokenizer of a Hugging Face folder is not used, or ""
  /// Folder of a model with the same tokenizer, whose generation_config.json, if it has one, is kept; or "".
  std::filesystem::path generation_config_from = {};
};

/// The files that make parameters a model: params.json and the tokenizer's.
struct ModelDescription {
  std::string params;
  ModelTokenizer tokenizer;
};
ModelDescription describe_model(const ShardedModel& model, const ModelTokenizer& tokenizer);
void write_description(const std::filesystem::path& folder, const ModelDescription& description);

/// The fp32 entries of a file with these parameters, in order.
std::vector<TensorEntry> entries_of(const std::vector<ParameterSet>& sets);

/// [all ranks, collective] Calls on_tensor with each tensor of the complete model, in fp32 in the host's memory, with
/// adapters merged into their layers: what model.safetensors holds. Gathers one set of parameters after another.
/// `on_tensor` is null on ranks that only take part. Returns its first failure, after which it is not called again.
using VisitSaved = std::function<void(const ParameterSpec&, const at::Tensor& value)>;
std::optional<Error> for_each_saved_tensor(const ShardedModel& model, const Adapter* adapter,
                                           const VisitSaved& on_tensor);

/// [all ranks, collective] Writes and publishes `folder` (model.safetensors in fp32, params.json, the tokenizer's
/// files, manifest.json), with adapters merged into their layers. Returns the size of model.safetensors on rank 0.
int64_t save_model(const std::filesystem::path& folder, int64_t step, const std::string& config_hash,
                   ShardedModel& model, const Adapter* adapter, const ModelTokenizer& tokenizer);

/// [each rank, no communication] Fills the rank's own shards from a file or folder. Parameters of adapters, and of
/// value heads that are trained, keep their initial values if the files lack them. Error(data) names a tensor that is
/// missing, has another shape or dtype, holds NaN, infinity or, against ModelTensor::may_be_zero, only zeros, or is
/// unexpected (tensors of heads that the model does not use are allowed).
void load_model(const std::filesystem::path& weights, ShardedModel& model);

/// Fills the parameters that a training checkpoint has; the others keep their values. Error(data) as load_model.
void load_trained(const std::filesystem::path& checkpoint, ShardedModel& model);

/// The tokenizer named in params.json, or that of a Hugging Face folder; of kind none if there is none. Error(data) if
/// its file is missing.
ModelTokenizer read_model_tokenizer(const std::filesystem::path& folder);

/// The value heads of a model saved by this program (without a meaning if saved by an earlier version); empty for other
/// files.
std::vector<ValueHead> read_saved_value_heads(const std::filesystem::path& folder);

}  // namespace wmtp
