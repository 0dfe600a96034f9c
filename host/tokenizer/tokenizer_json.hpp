// Parser of tokenizer.json of the tokenizers library, for two kinds: a byte-level BPE (GPT-2, Llama 3, Qwen2, SmolLM),
// and SentencePiece's BPE in JSON, with spaces as U+2581 and byte fallback (Llama 2, TinyLlama). Anything that this
// program would compute differently is refused by name.
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
    int32_t left, right, merged;
  };
  /// Matched in the text before it is split into words; tokens that are not `normalized` are matched first, the others
  /// in the normalized text, where their content is normalized, too.
  struct AddedToken {
    int32_t id;
    std::string content;
    bool special, normalized;
    bool lstrip = false, rstrip = false;  ///< white space before and after it belongs to it
  };
  /// Each split is applied to the pieces of the previous one.
  struct Split {
    std::string expression;
    bool keeps_only_matches = false;  ///< text between matches is dropped
  };

  std::vector<std::string> tokens;      ///< bytes by id; "" for ids that do not exist
  std::array<int32_t, 256> byte_ids{};  ///< -1: none, and a text loses that byte
  /// With byte_fallback: the characters that are tokens; others are encoded as bytes. Empty for a byte-level BPE.
  std::unordered_map<std::string, int32_t> characters;
  std::vector<Merge> merges;  ///< by descending priority
  std::vector<AddedToken> added;
  std::vector<Split> splits;
  bool normalizes_to_nfc = false;   ///< the text is first normalized to NFC
  bool add_prefix_space = false;    ///< adds a space to the front of every piece that does not begin with one …
  size_t prefixed_split = 0;        ///< … before applying the split with this index
  bool ignore_merges = false;       ///< a word that is a token is encoded as that token
  std::vector<int32_t> prefix_ids;  ///< special ids of the file's template

  bool byte_fallback = false;  ///< a piece is one word, its spaces written as space_mark; there are no splits
  bool marks_early = false;    ///< spaces become space_marks before tokens that are `normalized` are matched
  /// Where a space_mark is added: nowhere; before the text or every piece unless it begins with a space; before every
  /// piece.
  enum class FirstMark { none, text, missing, always } first_mark = FirstMark::none;
};

/// Error(data) names the part of the file that is missing, malformed, or of an unsupported kind.
TokenizerJson read_tokenizer_json(const std::filesystem::path& file);

/// GPT-2's letters for bytes: printable bytes map to themselves, the others to U+0100 and up.
const std::array<std::string, 256>& byte_letters();

}  // namespace wmtp
