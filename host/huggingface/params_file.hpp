// params.json: the shape of a model, stored next to its weights, with Meta's keys and ours (ffn_dim, n_future_tokens,
// future_heads, future_offsets, rope_scaling, value_heads, tokenizer, template, and the options of
// experiment/model_config.hpp). Meta's own files state the vocabulary size and the feed-forward width indirectly or not
// at all, so those two are taken from the tensors.
#pragma once

#include <filesystem>
#include <string>

#include "base/json.hpp"
#include "checkpoint/safetensors_folder.hpp"
#include "experiment/experiment.hpp"
#include "huggingface/external_json.hpp"

namespace wmtp {

inline constexpr const char* params_file_name = "params.json";
inline constexpr const char* generation_config_name = "generation_config.json";

enum class SavedTokenizer { none, byte, bpe, tokenizer_json };
template <>
inline constexpr auto names_of<SavedTokenizer> = std::array{"", "byte", "bpe", "tokenizer_json"};

struct SavedShape {
  ModelConfig model;
  /// [{"name": …, "kind": …, "meaning": …}]; no "meaning" in files of earlier versions.
  Json value_heads = Json::array();
  bool has_max_sequence_length = false;  ///< stated; if not, the model's is 0, from config.json 2048
  SavedTokenizer tokenizer = SavedTokenizer::none;
  Json bos_token_id, eos_token_id;   ///< an id, a list of ids, or null
  std::string prompt_template = {};  ///< data.template of the records that the model was trained on; "" unknown
};

/// Error(data) lists every key that is missing, out of range, unknown and neither null nor false, or requires more than
/// a plain Llama.
SavedShape read_params(const std::filesystem::path& folder, const SafetensorsFolder& files);

/// An id, a list of ids, or null if the key is missing; records a mistake for anything else.
Json read_token_ids(ExternalJson& keys, const char* key);

/// The ids that end a text according to `eos_token_id` in the folder's params.json or config.json, and in its
/// generation_config.json; no id twice. Error(data) for a file that is malformed.
std::vector<int64_t> end_tokens(const std::filesystem::path& folder);

/// As in such files: one id, a list of several, null for none.
Json token_ids_json(const std::vector<int64_t>& ids);
std::vector<int64_t> token_ids(const Json& json);

/// Copies generation_config.json from a folder, if it has one. Transformers then ends texts by the ids that the copy
/// names, so it names all of `ends`. Error(data) if it is malformed, or too large.
void write_generation_config(const std::filesystem::path& from, const std::vector<int64_t>& ends,
                             const std::filesystem::path& folder);

/// Whether the files contain head 1's block; a value model has none.
bool predicts_tokens(const SavedShape& saved, const SafetensorsFolder& files);

/// "n_future_tokens", "future_heads" and "future_offsets"; with the first only, parallel heads of the next tokens.
void read_heads(ExternalJson& keys, std::optional<int64_t> default_count, ModelConfig& model);

/// The keys of read_heads but the first, where they differ from their defaults.
void add_heads_json(const ModelConfig& model, Json& to);

/// The list under "value_heads"; empty if the key is missing.
Json read_value_heads(ExternalJson& keys);

std::string params_text(const SavedShape& saved);

/// Indented by two spaces, with a final newline.
std::string pretty_json(const Json& document);

}  // namespace wmtp
