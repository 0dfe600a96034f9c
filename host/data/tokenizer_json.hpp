// tokenizer.json of the tokenizers library, as far as it is a byte-level BPE (GPT-2, Llama 3, Qwen2, SmolLM): read
// strictly, so that what this program would do otherwise is refused by its name. Knows no LibTorch.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

struct ByteLevelBpe {
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
  std::vector<Merge> merges;  ///< the first ones go first
  std::vector<Added> added;
  std::vector<Split> splits;
  bool composes = false;             ///< the text is brought into Unicode's form NFC first
  bool add_prefix_space = false;     ///< a space before every piece that begins with none
  size_t prefixed_split = 0;         ///< … before it is cut by this one of the splits
  bool ignore_merges = false;        ///< a word that is a token is that token
  std::vector<int32_t> before_text;  ///< special ids that the file's template puts there
};

/// Error(data) names the part of the file that is missing, broken, or of a kind that is not read here.
ByteLevelBpe read_tokenizer_json(const std::filesystem::path& file);

}  // namespace wmtp
