// Byte-pair encoding of one word: repeatedly joins the adjacent pair whose merge has the highest priority, the leftmost
// in case of ties (Sennrich et al. 2016). A long word is first cut into runs, between two characters that no token has
// in a row, because no merge joins them. A run of n bytes takes O(n log n) time and 12 bytes for each of its bytes.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tokenizer/tokenizer_json.hpp"
#include "tokenizer/word_cache.hpp"

namespace wmtp {

class BytePairMerges {
 public:
  explicit BytePairMerges(const TokenizerJson& bpe);

  /// Appends the ids of a word. Not thread-safe: keeps the ids of short words.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;
  /// Appends the ids of all runs of a word's beginning but the last, which further characters could continue, and
  /// returns their length. [without ignore_merges]
  size_t encode_begin(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  struct Merge {
    int32_t rank, id;
  };
  class Parts;

  void find_joined(const std::vector<TokenizerJson::Merge>& merges);
  const Merge* find(int32_t left, int32_t right) const;
  void add_character(std::string_view character, std::vector<int32_t>& ids) const;
  size_t run_length(std::string_view word) const;
  void encode_run(std::string_view run, std::vector<int32_t>& ids) const;
  std::vector<int32_t> merged(std::string_view run) const;

  std::array<int32_t, 256> byte_ids_;
  StringMap<int32_t> characters_;
  std::unordered_map<uint64_t, Merge> merges_;  ///< by both ids
  StringMap<int32_t> word_tokens_;              ///< words encoded as one token, regardless of merges
  bool has_runs_ = true;                        ///< whether joined_ is known
  std::unordered_set<uint64_t> joined_;         ///< ids of bytes and characters that a token has in a row
  mutable WordCache words_;
};

}  // namespace wmtp
