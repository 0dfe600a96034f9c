// The ids of words already encoded: most words of a text occur many times in it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace wmtp {

/// A map from strings to values that is searched with a string_view.
template <class Value>
class StringMap {
 public:
  const Value* find(std::string_view text) const {
    const auto found = values_.find(text);
    return found == values_.end() ? nullptr : &found->second;
  }
  const Value& emplace(std::string_view text, Value value) {
    return values_.emplace(std::string(text), std::move(value)).first->second;
  }
  template <class Take>
  void for_each(Take take) const {
    for (const auto& [text, value] : values_) take(text, value);
  }
  size_t size() const { return values_.size(); }
  void clear() { values_.clear(); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, Value, Hash, std::equal_to<>> values_;
};

class WordCache {
 public:
  static constexpr size_t max_length = 64;  ///< of the words that are kept

  /// Appends the ids of a word; encode(word) returns them if they are not known.
  template <class Encode>
  void append(std::string_view word, std::vector<int32_t>& ids, Encode encode) {
    const auto append = [&](const std::vector<int32_t>& more) { ids.insert(ids.end(), more.begin(), more.end()); };
    if (const auto* known = known_.find(word)) return append(*known);
    if (word.size() > max_length) return append(encode(word));
    if (known_.size() >= max_words) known_.clear();
    append(known_.emplace(word, encode(word)));
  }

 private:
  static constexpr size_t max_words = 1 << 16;
  StringMap<std::vector<int32_t>> known_;
};

}  // namespace wmtp
