// Byte-pair encoding of one word: of all neighbours the pair whose merge stands first is joined, the leftmost of
// several, until none is left (Sennrich et al. 2016). A heap of the pairs makes that n log n for a word of n bytes.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tokenizer/tokenizer_json.hpp"

namespace wmtp {

class BytePairMerges {
 public:
  explicit BytePairMerges(const TokenizerJson& bpe);

  /// Appends the ids of a word. What was made of words lately is kept. Not for several threads at once.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  struct Made {
    int32_t rank, id;
  };
  const Made* find(int32_t left, int32_t right) const;
  std::vector<int32_t> first_ids(std::string_view word) const;
  std::vector<int32_t> merged(std::string_view word) const;

  std::array<int32_t, 256> byte_ids_;
  std::unordered_map<std::string, int32_t> characters_;
  std::unordered_map<uint64_t, Made> merges_;             ///< by both ids
  std::unordered_map<std::string, int32_t> whole_words_;  ///< that are tokens whatever their merges say
  mutable std::unordered_map<std::string, std::vector<int32_t>> kept_;
};

}  // namespace wmtp
