// Finds added tokens in a text before it is split into words: the leftmost, and of those that start there the longest.
// White space around a token can belong to it; the search goes on directly behind its content, as in the tokenizers
// library. A file may have millions of added tokens, so each takes little more than its content.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_json.hpp"

namespace wmtp {

class AddedTokens {
 public:
  /// `id` and the sides on which the token takes in white space are of `token`. Of equal contents, the last one counts.
  void add(std::string_view content, const TokenizerJson::AddedToken& token);
  /// To be called after the last add() and before find().
  void sort();
  size_t longest() const { return longest_; }  ///< in bytes; 0 if there are none

  struct Token {
    std::string content;
    int32_t id;
    bool special, lstrip, rstrip;
  };
  struct Found {
    size_t begin, end;  ///< of the content
    const Token* token;
  };
  std::optional<Found> find(std::string_view text, size_t from) const;

 private:
  std::vector<Token> tokens_;             ///< by content
  std::array<size_t, 257> first_with_{};  ///< by first byte: where its tokens begin
  size_t longest_ = 0;
};

}  // namespace wmtp
