#include "tokenizer/byte_pair_merges.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

uint64_t pair_key(int32_t left, int32_t right) { return uint64_t(uint32_t(left)) << 32 | uint32_t(right); }

size_t character_end(std::string_view text, size_t begin) {
  size_t end = begin + 1;
  while (end < text.size() && is_continuation(text[end])) ++end;
  return end;
}

}  // namespace

/// The parts of a run, at first its bytes and characters (units), in three numbers for each unit.
class BytePairMerges::Parts {
 public:
  Parts(const BytePairMerges& bpe, std::vector<int32_t> units)
      : bpe_(bpe), size_(uint32_t(units.size())), ids_(std::move(units)), next_(size_), ranks_(size_ + 1, none) {
    for (uint32_t i = 0; i < size_; ++i) next_[i] = i + 1;
    for (uint32_t i = 0; i + 1 < size_; ++i) ranks_[i] = rank_at(i);
    const uint32_t blocks = (size_ + units_of_block - 1) / units_of_block;
    leaves_ = std::bit_ceil(std::max(blocks, 1u));
    best_.assign(2 * size_t(leaves_), size_);
    for (uint32_t block = 0; block < blocks; ++block) best_[leaves_ + block] = best_of(block);
    for (size_t node = leaves_; node-- > 1;) best_[node] = better(best_[2 * node], best_[2 * node + 1]);
  }

  std::vector<int32_t> merge() {
    for (uint32_t left = best_[1]; ranks_[left] != none; left = best_[1]) join(left);
    size_t count = 0;
    for (uint32_t i = 0; i < size_; i = next_[i]) ids_[count++] = ids_[i];
    ids_.resize(count);
    return std::move(ids_);
  }

 private:
  static constexpr int32_t none = std::numeric_limits<int32_t>::max();
  static constexpr uint32_t units_of_block = 64;

  int32_t rank_at(uint32_t part) const {
    const uint32_t next = next_[part];
    const Merge* merge = next < size_ ? bpe_.find(ids_[part], ids_[next]) : nullptr;
    return merge ? merge->rank : none;
  }

  uint32_t before(uint32_t part) const { return std::min(next_[part - 1], part - 1); }

  void join(uint32_t left) {
    const uint32_t gone = next_[left], next = next_[gone];
    ids_[left] = bpe_.find(ids_[left], ids_[gone])->id;
    next_[left] = next;
    next_[next - 1] = left;
    ranks_[gone] = none;
    ranks_[left] = rank_at(left);
    const uint32_t first = left > 0 ? before(left) : left;
    if (first != left) ranks_[first] = rank_at(first);
    refresh(gone / units_of_block);
    if (left / units_of_block != gone / units_of_block) refresh(left / units_of_block);
    if (first / units_of_block != left / units_of_block) refresh(first / units_of_block);
  }

  uint32_t better(uint32_t one, uint32_t other) const { return ranks_[other] < ranks_[one] ? other : one; }

  uint32_t best_of(uint32_t block) const {
    const auto begin = ranks_.begin() + block * std::ptrdiff_t(units_of_block);
    const auto end = ranks_.begin() + std::min(size_, (block + 1) * units_of_block);
    return uint32_t(std::min_element(begin, end) - ranks_.begin());
  }

  void refresh(uint32_t block) {
    size_t node = leaves_ + block;
    best_[node] = best_of(block);
    for (node /= 2; node > 0; node /= 2) best_[node] = better(best_[2 * node], best_[2 * node + 1]);
  }

  const BytePairMerges& bpe_;
  uint32_t size_, leaves_ = 1;
  std::vector<int32_t> ids_;  ///< of each part, at its first unit
  std::vector<uint32_t>
      next_;  ///< at a part's first unit: where the next begins; at its last, if another: where it begins
  std::vector<int32_t> ranks_;  ///< of the merge of a part with the next one, at its first unit
  std::vector<uint32_t> best_;  ///< a tree over blocks of units: where the first of the lowest ranks below a node is
};

BytePairMerges::BytePairMerges(const TokenizerJson& bpe) : byte_ids_(bpe.byte_ids) {
  for (const auto& [character, id] : bpe.characters) characters_.emplace(character, id);
  int32_t rank = 0;
  for (const TokenizerJson::Merge& merge : bpe.merges)
    merges_.insert_or_assign(pair_key(merge.left, merge.right), Merge{rank++, merge.merged});
  find_joined(bpe.merges);
  if (!bpe.ignore_merges) return;
  std::vector<bool> is_added(bpe.tokens.size());
  for (const TokenizerJson::AddedToken& added : bpe.added) is_added[size_t(added.id)] = true;
  for (size_t id = 0; id < bpe.tokens.size(); ++id)
    if (!is_added[id] && !bpe.tokens[id].empty()) word_tokens_.emplace(bpe.tokens[id], int32_t(id));
}

/// Units are joined by a merge if they are the last of its left and the first of its right part. Nothing is known if a
/// token can be made of different units, which real files do not have.
void BytePairMerges::find_joined(const std::vector<TokenizerJson::Merge>& merges) {
  struct Ends {
    int32_t first, last;
  };
  std::unordered_map<int32_t, Ends> ends;
  ends.reserve(merges.size() + 256);
  for (const int32_t id : byte_ids_)
    if (id >= 0) ends.emplace(id, Ends{id, id});
  characters_.for_each([&](const std::string&, int32_t id) { ends.emplace(id, Ends{id, id}); });
  for (bool grows = true; grows;) {  // merges may stand before those that make their parts
    grows = false;
    for (const TokenizerJson::Merge& merge : merges) {
      const auto left = ends.find(merge.left), right = ends.find(merge.right);
      if (left == ends.end() || right == ends.end()) continue;
      const Ends made{left->second.first, right->second.last};
      joined_.insert(pair_key(left->second.last, right->second.first));
      const auto [known, is_new] = ends.emplace(merge.merged, made);
      grows = grows || is_new;
      has_runs_ = has_runs_ && known->second.first == made.first && known->second.last == made.last;
    }
  }
}

const BytePairMerges::Merge* BytePairMerges::find(int32_t left, int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairMerges::encode(std::string_view word, std::vector<int32_t>& ids) const {
  if (const auto* token = word_tokens_.find(word)) return ids.push_back(*token);
  if (word.size() <= WordCache::max_length) return encode_run(word, ids);
  const size_t begun = encode_begin(word, ids);
  encode_run(word.substr(begun), ids);
}

size_t BytePairMerges::encode_begin(std::string_view word, std::vector<int32_t>& ids) const {
  size_t begin = 0;
  for (size_t length = 0; begin < word.size(); begin += length) {
    length = run_length(word.substr(begin));
    if (begin + length == word.size()) break;
    encode_run(word.substr(begin, length), ids);
  }
  return begin;
}

size_t BytePairMerges::run_length(std::string_view word) const {
  if (!has_runs_) return word.size();
  std::vector<int32_t> left, right;
  size_t at = character_end(word, 0);
  add_character(word.substr(0, at), left);
  while (at < word.size()) {
    const size_t begin = at, end = character_end(word, at);
    right.clear();
    add_character(word.substr(at, end - at), right);
    at = end;
    if (right.empty()) continue;  // it has no id, so that its neighbours can be joined
    if (!left.empty() && !joined_.contains(pair_key(left.back(), right.front()))) return begin;
    left.swap(right);
  }
  return at;
}

void BytePairMerges::encode_run(std::string_view run, std::vector<int32_t>& ids) const {
  words_.append(run, ids, [this](std::string_view unknown) { return merged(unknown); });
}

/// The id of a character that is a token, or those of its bytes that have one.
void BytePairMerges::add_character(std::string_view character, std::vector<int32_t>& ids) const {
  if (const auto* id = characters_.find(character)) return ids.push_back(*id);
  for (const char byte : character)
    if (const int32_t id = byte_ids_[uint8_t(byte)]; id >= 0) ids.push_back(id);
}

std::vector<int32_t> BytePairMerges::merged(std::string_view run) const {
  if (run.size() >= std::numeric_limits<uint32_t>::max())
    throw Error(ExitStatus::data, "a text has a word of " + human_bytes(int64_t(run.size())) +
                                      ", in which any two characters can be part of one token; wanted less than 4 GiB: "
                                      "split it into several documents");
  std::vector<int32_t> units;
  units.reserve(run.size());
  for (size_t begin = 0, end = 0; begin < run.size(); begin = end) {
    end = character_end(run, begin);
    add_character(run.substr(begin, end - begin), units);
  }
  return Parts(*this, std::move(units)).merge();
}

}  // namespace wmtp
