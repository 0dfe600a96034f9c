// tokenizer.json of the tokenizers library, as far as it is a byte-level BPE (GPT-2, Llama 3, Qwen2, SmolLM), or
// SentencePiece's BPE in JSON, with spaces as U+2581 and bytes where a character is no token (Llama 2, TinyLlama): read
// strictly, so that what this program would do otherwise is refused by its name. Knows no LibTorch.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace wmtp {

inline constexpr std::string_view space_mark = "\xe2\x96\x81";  // U+2581, a space in SentencePiece's tokens

struct TokenizerJson {
  struct Merge {
    int32_t left, right, made;
  };
  /// Found in the text before it is cut into words. Those that are not `normalized` are found first.
  struct Added {
    int32_t id;
    std::string content;
    bool special, normalized;
  };
  /// One cut after another; each cuts the pieces of the one before.
  struct Split {
    std::string expression;
    bool keeps_matches_alone = false;  ///< what lies between matches is dropped
  };

  std::vector<std::string> tokens;  ///< bytes by id; "" where there is no such id
  std::array<int32_t, 256> byte_ids{};
  /// Of a BPE with byte_fallback: characters that are tokens; others are their bytes. Empty of a byte-level BPE.
  std::unordered_map<std::string, int32_t> characters;
  std::vector<Merge> merges;  ///< the first ones go first
  std::vector<Added> added;
  std::vector<Split> splits;
  bool composes = false;             ///< the text is brought into Unicode's form NFC first
  bool add_prefix_space = false;     ///< a space before every piece that begins with none
  size_t prefixed_split = 0;         ///< … before it is cut by this one of the splits
  bool ignore_merges = false;        ///< a word that is a token is that token
  std::vector<int32_t> before_text;  ///< special ids that the file's template puts there

  bool byte_fallback = false;  ///< a piece is one word, its spaces written as space_mark; nothing below splits it
  /// Where another space_mark comes first: nowhere, before the text or every piece unless a space is there, before
  /// every piece.
  enum class FirstMark { none, text, missing, always } first_mark = FirstMark::none;
};

/// Error(data) names the part of the file that is missing, broken, or of a kind that is not read here.
TokenizerJson read_tokenizer_json(const std::filesystem::path& file);

}  // namespace wmtp
