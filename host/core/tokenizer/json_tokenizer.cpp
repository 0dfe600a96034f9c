#include "core/tokenizer/json_tokenizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "core/tokenizer/added_tokens.hpp"
#include "core/tokenizer/byte_pair_merges.hpp"
#include "core/tokenizer/split_pattern.hpp"
#include "core/tokenizer/tokenizer_files.hpp"
#include "core/tokenizer/tokenizer_json.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// Text in UTF-8 in Unicode's form NFC: letters and their marks as one character where there is one.
std::string composed(std::string_view text) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &made, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (size < 0) throw std::bad_alloc();  // the text is UTF-8: nothing else can fail
  std::string whole(reinterpret_cast<const char*>(made), static_cast<size_t>(size));
  std::free(made);
  return whole;
}

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(const fs::path& file, TokenizerJson bpe, int32_t end_of_text)
      : bpe_(std::move(bpe)), end_of_text_(end_of_text), merges_(bpe_) {
    for (const TokenizerJson::Added& added : bpe_.added) {
      (added.normalized ? later_ : first_).add(added.content, added.id);
      if (added.special) bpe_.tokens[static_cast<size_t>(added.id)].clear();
    }
    for (const TokenizerJson::Split& split : bpe_.splits)
      splits_.emplace_back(split.expression, file.string() + ": pre_tokenizer");
  }

  int64_t vocab_size() const override { return static_cast<int64_t>(bpe_.tokens.size()); }
  int64_t end_of_text() const override { return end_of_text_; }
  Reads reads() const override { return Reads::repaired; }
  std::vector<int32_t> before_text() const override { return bpe_.before_text; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    const bool whole = valid_utf8(text) == text.size();
    const std::string repaired = whole ? "" : repaired_utf8(text);
    encode_begin(whole ? text : repaired, /*goes_on=*/false, ids);
    return ids;
  }

  size_t encode_begin(std::string_view text, bool goes_on, std::vector<int32_t>& ids) const override {
    // What stands before the whole text does not before its parts, and a part's end may be joined with what follows.
    if (goes_on && (bpe_.add_prefix_space || bpe_.composes || bpe_.byte_fallback)) return 0;
    const auto words = [&](std::string_view part, bool part_goes_on) {
      if (!bpe_.byte_fallback) return cut(part, 0, part_goes_on, ids);
      if (!part.empty()) merges_.encode(marked(part, part.data() == text.data()), ids);
      return part.size();
    };
    const auto with_later = [&](std::string_view part, bool part_goes_on) {
      return between(later_, part, part_goes_on, words, ids);
    };
    const auto with_composed = [&](std::string_view part, bool part_goes_on) {
      if (!bpe_.composes) return with_later(part, part_goes_on);
      with_later(composed(part), false);
      return part.size();
    };
    return between(first_, text, goes_on, with_composed, ids);
  }

  std::string decode(const std::vector<int32_t>& ids) const override {
    std::string text;
    for (const int32_t id : ids)
      if (id >= 0 && static_cast<size_t>(id) < bpe_.tokens.size()) text += bpe_.tokens[static_cast<size_t>(id)];
    return text;
  }

 private:
  /// Ids of the tokens in `text`, and take(part, goes_on) of what lies between; returns how much was taken.
  template <class Take>
  static size_t between(const AddedTokens& tokens, std::string_view text, bool goes_on, Take take,
                        std::vector<int32_t>& ids) {
    // A token that begins behind this may be another one when the text goes on.
    const size_t known =
        goes_on ? start_of_character(text, text.size() - std::min(text.size(), tokens.longest())) : text.size();
    size_t taken = 0;
    for (auto found = tokens.find(text, 0); found && found->begin < known; found = tokens.find(text, taken)) {
      take(text.substr(taken, found->begin - taken), false);
      ids.push_back(found->id);
      taken = found->end;
    }
    return taken >= known ? taken : taken + take(text.substr(taken, known - taken), goes_on);
  }

  /// A piece with marks for its spaces, and the one that comes first.
  std::string marked(std::string_view piece, bool begins_text) const {
    using FirstMark = TokenizerJson::FirstMark;
    const bool has_one = piece.starts_with(' ') || piece.starts_with(space_mark);
    const bool wants_one = bpe_.first_mark == FirstMark::always ||
                           (bpe_.first_mark == FirstMark::missing && !has_one) ||
                           (bpe_.first_mark == FirstMark::text && begins_text && !has_one);
    std::string text(wants_one ? space_mark : "");
    for (const char c : piece) {
      if (c == ' ')
        text += space_mark;
      else
        text += c;
    }
    return text;
  }

  /// Cuts a piece by the splits from `level` on, and makes ids of the words; returns how much was taken.
  size_t cut(std::string_view piece, size_t level, bool goes_on, std::vector<int32_t>& ids) const {
    if (piece.empty()) return 0;
    if (bpe_.add_prefix_space && level == bpe_.prefixed_split && piece[0] != ' ') {
      const std::string prefixed = ' ' + std::string(piece);
      by_pattern(prefixed, level, false, ids);
      return piece.size();
    }
    return by_pattern(piece, level, goes_on, ids);
  }

  size_t by_pattern(std::string_view piece, size_t level, bool goes_on, std::vector<int32_t>& ids) const {
    if (level == splits_.size()) {
      if (goes_on) return 0;
      merges_.encode(piece, ids);
      return piece.size();
    }
    using Kind = SplitPattern::Match::Kind;
    size_t taken = 0;
    while (taken < piece.size()) {
      const SplitPattern::Match match = splits_[level].find(piece, taken, goes_on);
      if (goes_on && match.kind != Kind::found) break;
      if (match.begin > taken && !bpe_.splits[level].keeps_matches_alone)
        cut(piece.substr(taken, match.begin - taken), level + 1, false, ids);
      if (match.kind == Kind::found) cut(piece.substr(match.begin, match.end - match.begin), level + 1, false, ids);
      taken = match.end;
    }
    return taken;
  }

  TokenizerJson bpe_;
  int32_t end_of_text_;
  BytePairMerges merges_;
  AddedTokens first_, later_;
  std::vector<SplitPattern> splits_;
};

/// The id of the eos_token.
int32_t end_of_text_of(const fs::path& file, const TokenizerJson& bpe) {
  const std::string where = (file.parent_path() / tokenizer_config_name).string();
  const auto refuse = [&](const std::string& why) { throw Error(ExitStatus::data, where + ": " + why); };
  const auto config = tokenizer_config_beside(file);
  if (!config) refuse("it does not exist; it must name the eos_token of " + file.filename().string());
  if (config->eos_token.empty()) refuse("it names no eos_token, which ends a text");
  for (const TokenizerJson::Added& added : bpe.added)
    if (added.content == config->eos_token) return added.id;
  refuse("its eos_token " + printable(config->eos_token) + " is none of the added tokens of " +
         file.filename().string());
  return 0;
}

}  // namespace

std::unique_ptr<Tokenizer> json_tokenizer(const fs::path& file) {
  TokenizerJson bpe = read_tokenizer_json(file);
  const int32_t end_of_text = end_of_text_of(file, bpe);
  return std::make_unique<JsonTokenizer>(file, std::move(bpe), end_of_text);
}

}  // namespace wmtp
