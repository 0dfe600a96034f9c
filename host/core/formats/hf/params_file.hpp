// params.json: the shape of a model beside its weights, with Meta's keys and ours (ffn_dim, n_future_tokens,
// rope_scaling, qkv_bias, tie_word_embeddings, value_heads, tokenizer). Meta's own files give neither vocabulary nor feed-forward width plainly: those two are read off the
// tensors. Knows no LibTorch.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/experiment/experiment.hpp"
#include "core/formats/hf/external_json.hpp"
#include "core/formats/safetensors/safetensors_folder.hpp"

namespace wmtp {

inline constexpr const char* params_file_name = "params.json";

struct SavedShape {
  ModelConfig model;
  nlohmann::json value_heads =
      nlohmann::json::array();           ///< [{"name": …, "kind": …, "meaning": …}]; an older one has no meaning
  bool has_max_sequence_length = false;  ///< else model.max_sequence_length is 0
  std::string tokenizer{};               ///< "byte", "bpe", "tokenizer_json", or "" where none is named
  nlohmann::json bos_token_id, eos_token_id;  ///< an id, a list of ids, or null
};

/// Error(data) with every key that is missing, out of range, or asks for what a plain Llama has not.
SavedShape read_params(const std::filesystem::path& folder, const SafetensorsFolder& files);

/// An id, a list of ids, or null where the key is missing; anything else is noted.
nlohmann::json read_token_ids(ForeignKeys& keys, const char* key);

/// Whether the files hold the block of head 1; a value model's do not.
bool predicts_tokens(const SavedShape& saved, const SafetensorsFolder& files);

/// The list under "value_heads": none when the key is missing.
nlohmann::json read_value_heads(ForeignKeys& keys);

std::string params_text(const SavedShape& saved);

/// Ends with a line feed; numbers as short as they can be.
std::string pretty_json(const nlohmann::json& document);

}  // namespace wmtp
