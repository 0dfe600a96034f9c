#include "tokenizer/added_tokens.hpp"

#include <algorithm>

namespace wmtp {

void AddedTokens::add(std::string_view content, const TokenizerJson::AddedToken& token) {
  tokens_.push_back({std::string(content), token.id, token.special, token.lstrip, token.rstrip});
  longest_ = std::max(longest_, content.size());
}

void AddedTokens::sort() {
  std::ranges::reverse(tokens_);  // the last of equal ones comes first
  std::ranges::stable_sort(tokens_, {}, &Token::content);
  const auto repeated = std::ranges::unique(tokens_, {}, &Token::content);
  tokens_.erase(repeated.begin(), repeated.end());
  first_with_.fill(0);
  for (const Token& token : tokens_) ++first_with_[uint8_t(token.content[0]) + size_t{1}];
  for (size_t byte = 1; byte < first_with_.size(); ++byte) first_with_[byte] += first_with_[byte - 1];
}

std::optional<AddedTokens::Found> AddedTokens::find(std::string_view text, size_t from) const {
  if (longest_ == 0) return std::nullopt;
  for (size_t begin = from; begin < text.size(); ++begin) {
    const auto byte = uint8_t(text[begin]);
    size_t low = first_with_[byte], high = first_with_[byte + size_t{1}];  // of the tokens with the bytes so far
    std::optional<Found> found;
    for (size_t length = 1; low < high; ++length) {
      if (tokens_[low].content.size() == length) found = Found{begin, begin + length, &tokens_[low++]};
      if (begin + length == text.size()) break;
      const auto next = uint8_t(text[begin + length]);
      const auto of_next = [&](const Token& token) { return uint8_t(token.content[length]); };
      const auto range = std::ranges::equal_range(tokens_.begin() + std::ptrdiff_t(low),
                                                  tokens_.begin() + std::ptrdiff_t(high), next, {}, of_next);
      low = size_t(range.begin() - tokens_.begin());
      high = low + range.size();
    }
    if (found) return found;
  }
  return std::nullopt;
}

}  // namespace wmtp
