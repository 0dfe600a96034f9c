// Finds added tokens in a text before it is split into words: the leftmost, and of those that start there the longest.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace wmtp {

class AddedTokens {
 public:
  void add(std::string_view content, int32_t id);
  size_t longest() const { return longest_; }  ///< in bytes; 0 if there are none

  struct Found {
    size_t begin, end;
    int32_t id;
  };
  std::optional<Found> find(std::string_view text, size_t from) const;

 private:
  struct Node {
    std::map<char, size_t> next;
    int32_t id = -1;
  };
  std::vector<Node> nodes_{1};
  std::array<bool, 256> begins_{};
  size_t longest_ = 0;
};

}  // namespace wmtp
