// The vocabulary and the merges of a tokenizer.json while it is read. Such a file may have millions of both, so each
// takes a few bytes more than its text, where a document of JSON values would take hundreds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

namespace wmtp {

/// Tokens with their ids in the order in which they were added, found by their text.
class TokenTable {
 public:
  /// False if the token is already there; its id is kept. Ids above 2^32 - 1 are stored as that.
  bool add(std::string_view token, uint64_t id);
  size_t size() const { return entries_.size(); }
  std::string_view token(size_t index) const;
  uint32_t id(size_t index) const { return entries_[index].id; }
  std::optional<uint32_t> find(std::string_view token) const;

 private:
  struct Entry {
    uint32_t end, id;  ///< end of its text in text_
  };
  size_t slot_of(std::string_view token) const;
  void grow();

  std::string text_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_ = std::vector<uint32_t>(16);  ///< a hash table: index of an entry + 1; 0: free
};

/// The pairs of a list of merges, "a b" or ["a", "b"].
class MergeTexts {
 public:
  void add(std::string_view left, std::string_view right);
  size_t size() const { return ends_.size() / 2; }
  std::string_view left(size_t index) const { return part(2 * index); }
  std::string_view right(size_t index) const { return part(2 * index + 1); }

 private:
  std::string_view part(size_t index) const;

  std::string text_;
  std::vector<uint32_t> ends_;
};

/// What of a tokenizer.json is not kept as a document.
struct TokenLists {
  TokenTable vocabulary;
  MergeTexts merges;
  bool is_object = false, is_list = false;         ///< model.vocab, model.merges
  std::string vocabulary_mistake, merges_mistake;  ///< the first of each: what was found
};

/// Parses a tokenizer.json: model.vocab and model.merges into `lists` (they are null in the document), the rest as
/// parse_strict_json does.
Json parse_tokenizer_json(std::string_view text, const std::string& where, TokenLists& lists);

}  // namespace wmtp
