// Byte-pair encoding of one word: repeatedly joins the adjacent pair whose merge has the highest priority, the leftmost
// in case of ties (Sennrich et al. 2016). A heap of the pairs makes this O(n log n) for a word of n bytes.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tokenizer/tokenizer_json.hpp"
#include "core/tokenizer/word_cache.hpp"

namespace wmtp {

class BytePairMerges {
 public:
  explicit BytePairMerges(const TokenizerJson& bpe);

  /// Appends the ids of a word. Not thread-safe: keeps the ids of short words.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  struct Merge {
    int32_t rank, id;
  };
  const Merge* find(int32_t left, int32_t right) const;
  std::vector<int32_t> first_ids(std::string_view word) const;
  std::vector<int32_t> merged(std::string_view word) const;

  std::array<int32_t, 256> byte_ids_;
  ByText<int32_t> characters_;
  std::unordered_map<uint64_t, Merge> merges_;  ///< by both ids
  ByText<int32_t> word_tokens_;                  ///< words encoded as one token, regardless of merges
  mutable WordCache words_;
};

}  // namespace wmtp
