// Whether two tokenizers give ids the same meaning: compares tokens by id, and merges, of tokenizer.json, SentencePiece
// models and the tokenizer of bytes, also of different kinds. Other parts of the files, such as templates, do not
// count.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace wmtp {

/// "id 7 is "the" there and "▁the" here"
struct VocabularyDifference {
  int64_t id;
  std::string there, here;  ///< the token, "no token", or where only merges differ "merged of "a" and "b""
};

/// The first difference of the tokenizers in two files, the second one being that of `here`; an empty path stands for
/// the tokenizer "byte". nullopt if there is none, or if a file cannot be read as a vocabulary.
///   - An id without a token may be an added or special token in the other file: models get them later.
///   - Names of special tokens are labels and may differ: models rename those that were reserved.
std::optional<VocabularyDifference> vocabulary_difference(const std::filesystem::path& there,
                                                          const std::filesystem::path& here);

}  // namespace wmtp
