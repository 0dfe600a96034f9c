// Exports this program's tokenizers (bytes, and SentencePiece models trained by it) as tokenizer.json of the tokenizers
// library, with the same ids. One difference remains: that library treats U+2581 in a text as a space, this program
// encodes its bytes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/json.hpp"

namespace wmtp {

inline constexpr const char* byte_begin_token = "<|begin_of_text|>";
inline constexpr const char* byte_end_token = "<|end_of_text|>";

/// tokenizer.json for the tokenizer "byte".
Json byte_tokenizer_json();

/// tokenizer.json for a SentencePiece BPE that does not normalize text, as trained by train_bpe; nullopt for other
/// models. Error(data) if `model` is not a SentencePiece model.
std::optional<Json> sentencepiece_tokenizer_json(const std::filesystem::path& model);

/// Whether `model` is a SentencePiece BPE; Error(data) if it is not a SentencePiece model.
bool is_sentencepiece_bpe(const std::filesystem::path& model);

/// tokenizer_config.json for either: names the tokens that begin and end a text, which are neither recognized in a text
/// nor prepended to it.
Json exported_tokenizer_config(const std::string& begin, const std::string& end);

}  // namespace wmtp
