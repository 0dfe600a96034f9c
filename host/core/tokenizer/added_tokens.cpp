#include "core/tokenizer/added_tokens.hpp"

#include <algorithm>

namespace wmtp {

void AddedTokens::add(std::string_view content, const TokenizerJson::Added& token) {
  size_t node = 0;
  for (const char byte : content) {
    const auto [next, is_new] = nodes_[node].next.try_emplace(byte, nodes_.size());
    node = next->second;
    if (is_new) nodes_.emplace_back();
  }
  nodes_[node].token = token;
  begins_[static_cast<unsigned char>(content[0])] = true;
  longest_ = std::max(longest_, content.size());
}

std::optional<AddedTokens::Found> AddedTokens::find(std::string_view text, size_t from) const {
  if (longest_ == 0) return std::nullopt;
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
    std::optional<Found> found;
    size_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      const auto next = nodes_[node].next.find(text[at]);
      if (next == nodes_[node].next.end()) break;
      node = next->second;
      if (nodes_[node].token) found = Found{begin, at + 1, &*nodes_[node].token};
    }
    if (found) return found;
  }
  return std::nullopt;
}

}  // namespace wmtp
