// Finds added tokens in a text before it is split into words: the leftmost, and of those that start there the longest.
// White space around a token can belong to it; the search goes on directly behind its content, as in the tokenizers
// library.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "core/tokenizer/tokenizer_json.hpp"

namespace wmtp {

class AddedTokens {
 public:
  /// `id` and the sides on which the token takes in white space are of `token`.
  void add(std::string_view content, const TokenizerJson::Added& token);
  size_t longest() const { return longest_; }  ///< in bytes; 0 if there are none

  struct Found {
    size_t begin, end;  ///< of the content
    const TokenizerJson::Added* token;
  };
  std::optional<Found> find(std::string_view text, size_t from) const;

 private:
  struct Node {
    std::map<char, size_t> next;
    std::optional<TokenizerJson::Added> token;
  };
  std::vector<Node> nodes_{1};
  std::array<bool, 256> begins_{};
  size_t longest_ = 0;
};

}  // namespace wmtp
