#include "core/tokenizer/byte_pair_merges.hpp"

#include <queue>
#include <tuple>

#include "base/text.hpp"

namespace wmtp {
namespace {

uint64_t key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

BytePairMerges::BytePairMerges(const TokenizerJson& bpe) : byte_ids_(bpe.byte_ids) {
  for (const auto& [character, id] : bpe.characters) characters_.emplace(character, id);
  int32_t rank = 0;
  for (const TokenizerJson::Merge& merge : bpe.merges)
    merges_.insert_or_assign(key_of(merge.left, merge.right), Merge{rank++, merge.merged});
  if (!bpe.ignore_merges) return;
  std::vector<bool> is_added(bpe.tokens.size());
  for (const TokenizerJson::Added& added : bpe.added) is_added[static_cast<size_t>(added.id)] = true;
  for (size_t id = 0; id < bpe.tokens.size(); ++id)
    if (!is_added[id] && !bpe.tokens[id].empty()) word_tokens_.emplace(bpe.tokens[id], static_cast<int32_t>(id));
}

const BytePairMerges::Merge* BytePairMerges::find(int32_t left, int32_t right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairMerges::encode(std::string_view word, std::vector<int32_t>& ids) const {
  if (const auto* token = word_tokens_.find(word)) return ids.push_back(*token);
  words_.append(word, ids, [this](std::string_view unknown) { return merged(unknown); });
}

/// The ids of the characters that are tokens, and of the bytes of all others.
std::vector<int32_t> BytePairMerges::first_ids(std::string_view word) const {
  std::vector<int32_t> ids;
  for (size_t begin = 0, end = 0; begin < word.size(); begin = end) {
    end = begin + 1;
    while (end < word.size() && is_continuation(word[end])) ++end;
    if (const auto* character = characters_.find(word.substr(begin, end - begin)))
      ids.push_back(*character);
    else
      for (const char byte : word.substr(begin, end - begin))
        ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  }
  return ids;
}

std::vector<int32_t> BytePairMerges::merged(std::string_view word) const {
  struct Part {
    int32_t id;
    size_t before, next;  ///< indices into the first ids; their count at either end
  };
  const std::vector<int32_t> first = first_ids(word);
  const size_t end = first.size();
  std::vector<Part> parts;
  for (size_t i = 0; i < end; ++i) parts.push_back({first[i], i == 0 ? end : i - 1, i + 1});
  using Pair = std::tuple<int32_t, size_t, int32_t, int32_t>;  // rank, left part, both ids when it was added
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> pairs;
  const auto add = [&](size_t left) {
    if (left == end || parts[left].next == end) return;
    const int32_t a = parts[left].id, b = parts[parts[left].next].id;
    if (const Merge* merge = find(a, b)) pairs.emplace(merge->rank, left, a, b);
  };
  for (size_t i = 0; i < end; ++i) add(i);
  while (!pairs.empty()) {
    const auto [rank, left, a, b] = pairs.top();
    pairs.pop();
    Part& part = parts[left];
    if (part.id != a || part.next == end || parts[part.next].id != b) continue;  // a later merge changed it
    const size_t gone = part.next;
    part.id = find(a, b)->id;
    part.next = parts[gone].next;
    if (part.next != end) parts[part.next].before = left;
    parts[gone].id = -1;
    add(part.before);
    add(left);
  }
  std::vector<int32_t> ids;
  for (size_t i = 0; i < end; i = parts[i].next) ids.push_back(parts[i].id);
  return ids;
}

}  // namespace wmtp
