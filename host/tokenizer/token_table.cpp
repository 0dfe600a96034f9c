#include "tokenizer/token_table.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/error.hpp"
#include "base/json_parse.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

std::string shown(const Json& value) { return printable(value.dump(-1, ' ', true)); }

/// Takes the events of one value. Everything but what a reader expects is passed to `other`, lists and objects as null.
class ListReader : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return other(nullptr); }
  bool boolean(bool value) override { return other(value); }
  bool number_integer(Json::number_integer_t value) override { return other(value); }
  bool number_unsigned(Json::number_unsigned_t value) override { return other(value); }
  bool number_float(Json::number_float_t value, const std::string& /*digits*/) override { return other(value); }
  bool string(std::string& value) override { return other(value); }
  bool binary(Json::binary_t& /*value*/) override { return other(nullptr); }
  bool start_object(size_t /*count*/) override { return opened(Json::object()); }
  bool end_object() override { return closed(); }
  bool start_array(size_t /*count*/) override { return opened(Json::array()); }
  bool end_array() override { return closed(); }
  bool key(std::string& /*name*/) override { return true; }
  bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }

 protected:
  /// `value`: of a list or an object only whether it is one or the other.
  virtual bool other(const Json& value) = 0;
  virtual bool opened(const Json& kind) {
    if (depth_ > 0) other(kind);
    ++depth_;
    return true;
  }
  virtual bool closed() {
    --depth_;
    return true;
  }

  size_t depth_ = 0;  ///< lists and objects that are open
};

class VocabularyReader final : public ListReader {
 public:
  VocabularyReader(TokenLists& lists, const JsonRules& rules) : lists_(lists), rules_(rules) {}

  bool start_object(size_t count) override {
    if (depth_ == 0) lists_.is_object = true;
    return ListReader::start_object(count);
  }
  bool key(std::string& name) override {
    if (depth_ == 1) token_ = name;
    return true;
  }
  bool number_unsigned(Json::number_unsigned_t id) override {
    if (depth_ != 1 || !lists_.is_object || id > std::numeric_limits<uint32_t>::max()) return other(id);
    if (!lists_.vocabulary.add(token_, id)) rules_.repeated_key(2, token_);
    return true;
  }

 private:
  bool other(const Json& value) override {
    if (depth_ == 1 && lists_.is_object && lists_.vocabulary_mistake.empty())
      lists_.vocabulary_mistake = "the token " + printable(token_) + " has the id " + shown(value);
    return true;
  }

  TokenLists& lists_;
  const JsonRules& rules_;
  std::string token_;
};

class MergesReader final : public ListReader {
 public:
  explicit MergesReader(TokenLists& lists) : lists_(lists) {}

  bool start_array(size_t count) override {
    if (depth_ == 0) lists_.is_list = true;
    return ListReader::start_array(count);
  }
  bool string(std::string& text) override {
    if (!lists_.is_list || depth_ > 2) return true;
    if (depth_ == 2) {
      pair_.push_back(text);
      return true;
    }
    const size_t space = text.find(' ');
    if (space == std::string::npos)
      refuse(text);
    else
      add(std::string_view(text).substr(0, space), std::string_view(text).substr(space + 1), text);
    return true;
  }

 private:
  bool other(const Json& value) override {
    if (lists_.is_list && depth_ == 1 && !value.is_array()) refuse(value);
    if (depth_ == 2) pair_.push_back(value);
    return true;
  }
  bool closed() override {
    if (--depth_ != 1 || !lists_.is_list) return true;
    if (pair_.size() == 2 && pair_[0].is_string() && pair_[1].is_string())
      add(pair_[0].get_ref<const std::string&>(), pair_[1].get_ref<const std::string&>(), pair_);
    else
      refuse(pair_);
    pair_ = Json::array();
    return true;
  }

  void add(std::string_view left, std::string_view right, const Json& found) {
    if (left.empty() || right.empty() || right.find(' ') != std::string_view::npos)
      refuse(found);
    else
      lists_.merges.add(left, right);
  }
  void refuse(const Json& found) {
    if (lists_.merges_mistake.empty())
      lists_.merges_mistake = found.is_string() ? printable(found.get<std::string>()) : shown(found);
  }

  TokenLists& lists_;
  Json pair_ = Json::array();
};

}  // namespace

bool TokenTable::add(std::string_view token, uint64_t id) {
  const size_t slot = slot_of(token);
  if (slots_[slot] != 0) return false;
  text_ += token;
  entries_.push_back({uint32_t(text_.size()), uint32_t(std::min<uint64_t>(id, std::numeric_limits<uint32_t>::max()))});
  slots_[slot] = uint32_t(entries_.size());
  if (entries_.size() * 2 > slots_.size()) grow();
  return true;
}

std::string_view TokenTable::token(size_t index) const {
  const uint32_t begin = index == 0 ? 0 : entries_[index - 1].end;
  return std::string_view(text_).substr(begin, entries_[index].end - begin);
}

std::optional<uint32_t> TokenTable::find(std::string_view token) const {
  const uint32_t found = slots_[slot_of(token)];
  return found == 0 ? std::nullopt : std::optional(entries_[found - 1].id);
}

/// Where the token is, or the free slot for it.
size_t TokenTable::slot_of(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>()(text) & mask;
  while (slots_[slot] != 0 && token(slots_[slot] - 1) != text) slot = (slot + 1) & mask;
  return slot;
}

void TokenTable::grow() {
  slots_.assign(slots_.size() * 2, 0);
  for (size_t index = 0; index < entries_.size(); ++index) slots_[slot_of(token(index))] = uint32_t(index + 1);
}

void MergeTexts::add(std::string_view left, std::string_view right) {
  for (const std::string_view part : {left, right}) {
    text_ += part;
    ends_.push_back(uint32_t(text_.size()));
  }
}

std::string_view MergeTexts::part(size_t index) const {
  const uint32_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::string_view(text_).substr(begin, ends_[index] - begin);
}

Json parse_tokenizer_json(std::string_view text, const std::string& where, TokenLists& lists) {
  JsonRules rules;
  VocabularyReader vocabulary(lists, rules);
  MergesReader merges(lists);
  std::string part;  // of the document, which is being read
  rules.reader = [&](size_t depth, const std::string& key) -> nlohmann::json_sax<Json>* {
    if (depth == 0) part = key;
    if (depth != 1 || part != "model") return nullptr;
    return key == "vocab" ? static_cast<ListReader*>(&vocabulary) : key == "merges" ? &merges : nullptr;
  };
  return parse_strict_json(text, where, rules);
}

}  // namespace wmtp
