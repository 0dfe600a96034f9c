// The tokenizers of this program as tokenizer.json of the tokenizers library, with the same ids: bytes, and
// SentencePiece models that were trained here. A U+2581 in a text is a space there; here it is its bytes. Knows no
// LibTorch.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace wmtp {

inline constexpr const char* byte_begin_token = "<|begin_of_text|>";
inline constexpr const char* byte_end_token = "<|end_of_text|>";

/// Of the tokenizer "byte".
nlohmann::json byte_tokenizer_json();

/// Of a SentencePiece BPE that changes no text, as train_bpe makes them; nothing of another one. Error(data) when
/// `model` is no SentencePiece model.
std::optional<nlohmann::json> sentencepiece_tokenizer_json(const std::filesystem::path& model);

/// tokenizer_config.json beside either: the names of the tokens that begin and end a text, neither of which is found in
/// texts or put before them.
nlohmann::json exported_tokenizer_config(const std::string& begin, const std::string& end);

}  // namespace wmtp
