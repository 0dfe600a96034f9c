// The files of a tokenizer that is there already, by which every folder that a model or its data lie in keeps it:
// tokenizer.json with its tokenizer_config.json, or tokenizer.model (SentencePiece). Knows no LibTorch.
#pragma once

#include <filesystem>
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

/// Copies `file` into `folder` under its kind's name; tokenizer_config.json too where it lies beside it and `file` is a
/// tokenizer.json. Error(data) when it cannot be read.
void copy_tokenizer_files(const std::filesystem::path& file, const std::filesystem::path& folder);

/// SHA-256 of what copy_tokenizer_files copies.
std::string tokenizer_hash(const std::filesystem::path& file);

}  // namespace wmtp
