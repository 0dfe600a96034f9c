// The files of a tokenizer that is there already, by which every folder that a model or its data lie in keeps it:
// tokenizer.json or tokenizer.model (SentencePiece), and tokenizer_config.json, which says what the other file does
// not: what ends a text, and whether a SentencePiece model begins it with its BOS. Beside a tokenizer that was trained
// here there is none. Knows no LibTorch.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace wmtp {

inline constexpr const char* tokenizer_model_name = "tokenizer.model";
inline constexpr const char* tokenizer_json_name = "tokenizer.json";
inline constexpr const char* tokenizer_config_name = "tokenizer_config.json";

/// A tokenizer.json is one by the end of its name, whatever stands before; all others are SentencePiece's.
bool is_tokenizer_json(const std::filesystem::path& file);

/// The one that lies in a folder under its kind's name.
std::filesystem::path tokenizer_file_in(const std::filesystem::path& folder);

struct TokenizerConfigFile {
  std::string bos_token, eos_token;  ///< "" where it names none
  bool add_bos_token = true;         ///< of a SentencePiece model, as Llama's where the file does not say
};
/// Nothing where there is no such file. Error(data) when it is broken, or wants an EOS behind every text: a prompt
/// would end with it.
std::optional<TokenizerConfigFile> tokenizer_config_beside(const std::filesystem::path& file);

/// tokenizer_config.json of a Llama's SentencePiece model, in transformers' words: with a BOS and a space before texts,
/// as Llama's own, or with neither, as those that are trained here.
std::string llama_tokenizer_config(bool begins_texts);

/// Copies `file` into `folder` under its kind's name, and tokenizer_config.json where it lies beside it. Error(data)
/// when it cannot be read.
void copy_tokenizer_files(const std::filesystem::path& file, const std::filesystem::path& folder);

/// SHA-256 of what copy_tokenizer_files copies.
std::string tokenizer_hash(const std::filesystem::path& file);

}  // namespace wmtp
