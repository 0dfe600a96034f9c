// The tokenizer of a tokenizer.json.
#include <utf8proc.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/byte_pair_merges.hpp"
#include "tokenizer/split_pattern.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizer_json.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

utf8proc_propval_t combining_class(utf8proc_int32_t character) {
  return utf8proc_get_property(character)->combining_class;
}

/// The canonical decomposition of UTF-8 text. (utf8proc_decompose sorts marks in time quadratic in their number.)
std::vector<utf8proc_int32_t> decomposed(std::string_view text, utf8proc_option_t options) {
  constexpr utf8proc_ssize_t most_of_one = 32;
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size() + most_of_one);
  const auto* next = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (const auto* const end = next + text.size(); next != end;) {
    utf8proc_int32_t character = 0;
    next += std::max<utf8proc_ssize_t>(1, utf8proc_iterate(next, end - next, &character));
    int last_class = 0;
    const size_t size = characters.size();
    characters.resize(size + most_of_one);
    characters.resize(size +
                      size_t(utf8proc_decompose_char(character, &characters[size], most_of_one, options, &last_class)));
  }
  const auto is_mark = [](utf8proc_int32_t character) { return combining_class(character) != 0; };
  for (auto begin = characters.begin(); (begin = std::find_if(begin, characters.end(), is_mark)) != characters.end();) {
    const auto end = std::find_if_not(begin, characters.end(), is_mark);
    std::stable_sort(begin, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
  return characters;
}

/// UTF-8 text normalized to NFC. [valid]
std::string composed(std::string_view text) {
  constexpr auto options = utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  std::vector<utf8proc_int32_t> characters = decomposed(text, options);
  const auto count = utf8proc_ssize_t(characters.size());
  characters.push_back(0);  // for the NUL after the text, which is written in place
  const utf8proc_ssize_t size = utf8proc_reencode(characters.data(), count, options);
  return {reinterpret_cast<const char*>(characters.data()), size_t(size)};
}

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(const fs::path& file, TokenizerJson bpe, int32_t end_of_text, bool splits_special)
      : bpe_(std::move(bpe)),
        is_special_(bpe_.tokens.size()),
        end_of_text_(end_of_text),
        splits_special_(splits_special),
        merges_(bpe_) {
    for (const TokenizerJson::AddedToken& added : bpe_.added) {
      if (added.special) is_special_[size_t(added.id)] = true;
      if (added.normalized)
        normalized_added_.add(normalized(added.content, /*begins_part=*/true), added);
      else
        raw_added_.add(added.content, added);
      takes_space_ = takes_space_ || added.lstrip || added.rstrip;
    }
    raw_added_.sort();
    normalized_added_.sort();
    for (const TokenizerJson::Split& split : bpe_.splits) {
      splits_.emplace_back(split.expression, file.string() + ": pre_tokenizer");
      looks_back_ = looks_back_ || splits_.back().looks_back();
    }
  }

  int64_t vocab_size() const override { return int64_t(bpe_.tokens.size()); }
  int64_t end_of_text() const override { return end_of_text_; }
  Reads reads() const override { return Reads::repaired; }
  std::vector<int32_t> prefix_ids() const override { return bpe_.prefix_ids; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    const bool is_valid = valid_utf8_prefix(text) == text.size();
    const std::string repaired = is_valid ? "" : repaired_utf8(text);
    encode_begin(is_valid ? text : repaired, /*more_follows=*/false, ids, /*before=*/-1);
    return ids;
  }

  size_t encode_begin(std::string_view text, bool more_follows, std::vector<int32_t>& ids,
                      int32_t before) const override {
    // Space at the end may belong to a token that follows, and the next part may be split by this one.
    if (more_follows && (takes_space_ || looks_back_)) return 0;
    const TokenizerJson::AddedToken* token = matched(before);
    const bool begins = before < 0 || (token && !token->normalized), after_normalized = token && token->normalized;
    const auto words = [&](std::string_view part, bool begins_part, bool more_of_part) {
      if (!bpe_.byte_fallback) return split(part, 0, begins_part, more_of_part, ids);
      if (bpe_.marks_early) return encode_word(part, more_of_part, ids);
      const std::string made = marked(part, begins_part, before < 0 && part.data() == text.data());
      const size_t kept = ids.size(), done = encode_word(made, more_of_part, ids);
      return unless_lost(length_before_marks(part, made, done), kept, ids);
    };
    const auto with_normalized = [&](std::string_view part, bool begins_part, bool more_of_part) {
      return between(normalized_added_, part, begins_part, more_of_part, words, ids);
    };
    const auto with_raw = [&](std::string_view part, bool begins_part, bool more_of_part) {
      const bool begins_word = begins_part || after_normalized;  // other parts than the first begin anyway
      if (!bpe_.normalizes_to_nfc && !bpe_.marks_early) return with_normalized(part, begins_word, more_of_part);
      if (bpe_.normalizes_to_nfc && more_of_part) part = part.substr(0, last_ascii(part));
      const std::string made = normalized(part, begins_part);
      const size_t kept = ids.size(), done = with_normalized(made, begins_word, more_of_part);
      if (!more_of_part) return part.size();
      return unless_lost(
          bpe_.normalizes_to_nfc ? length_before_nfc(part, made, done) : length_before_marks(part, made, done), kept,
          ids);
    };
    return between(raw_added_, text, begins, more_follows, with_raw, ids);
  }

  std::string decode(const std::vector<int32_t>& ids) const override {
    std::string text;
    for (const int32_t id : ids)
      if (is_known(id) && !is_special_[size_t(id)]) text += bpe_.tokens[size_t(id)];
    return text;
  }

  std::string piece(int32_t id) const override { return is_known(id) ? bpe_.tokens[size_t(id)] : ""; }

 private:
  bool is_known(int32_t id) const { return id >= 0 && size_t(id) < bpe_.tokens.size(); }

  /// The added token with this id, if it is looked for in texts.
  const TokenizerJson::AddedToken* matched(int32_t id) const {
    if (id < 0) return nullptr;
    const auto found = std::ranges::find(bpe_.added, id, &TokenizerJson::AddedToken::id);
    return found == bpe_.added.end() || (found->special && splits_special_) ? nullptr : &*found;
  }

  /// A length in a text of what was encoded of another text made of it. If there is none, the ids since `kept` are
  /// dropped: they are encoded when more of the text is known.
  static size_t unless_lost(std::optional<size_t> length, size_t kept, std::vector<int32_t>& ids) {
    if (!length) ids.resize(kept);
    return length.value_or(0);
  }

  /// Appends the ids of the added tokens in `text` and calls encode_part(part, begins, more_follows) for the text
  /// between them, where `begins` is false if the part only continues the text before; returns the number of bytes
  /// encoded.
  template <class EncodePart>
  size_t between(const AddedTokens& tokens, std::string_view text, bool begins, bool more_follows,
                 EncodePart encode_part, std::vector<int32_t>& ids) const {
    // Beyond this, further text may complete a longer token.
    const size_t known =
        more_follows ? character_start(text, text.size() - std::min(text.size(), tokens.longest())) : text.size();
    size_t done = 0;
    for (auto found = tokens.find(text, 0); found && found->begin < known; found = tokens.find(text, found->end)) {
      if (found->token->special && splits_special_) continue;
      size_t begin = found->begin;
      if (found->token->lstrip && begin > done) begin = trailing_space_.find(text.substr(0, begin), done, false).begin;
      if (begin > done) encode_part(text.substr(done, begin - done), begins || done > 0, false);
      ids.push_back(found->token->id);
      done = found->end;
      if (!found->token->rstrip) continue;
      const SplitPattern::Match space = leading_space_.find(text.substr(done), 0, false);
      if (space.kind == SplitPattern::Match::Kind::found) done += space.end;
    }
    if (done >= known) return done;
    return done + encode_part(text.substr(done, known - done), begins || done > 0, more_follows);
  }

  /// What the file's normalizer makes of a text or of an added token.
  std::string normalized(std::string_view text, bool begins_part) const {
    if (bpe_.normalizes_to_nfc) return composed(text);
    return bpe_.marks_early ? marked(text, begins_part, /*begins_text=*/false) : std::string(text);
  }

  /// A piece with its spaces as space_mark and, if it begins a part, with a first mark according to FirstMark.
  std::string marked(std::string_view piece, bool begins_part, bool begins_text) const {
    using FirstMark = TokenizerJson::FirstMark;
    const bool has_one = piece.starts_with(' ') || piece.starts_with(space_mark);
    const bool wants_one = bpe_.first_mark == FirstMark::always ||
                           (bpe_.first_mark == FirstMark::missing && !has_one) ||
                           (bpe_.first_mark == FirstMark::text && begins_text && !has_one);
    std::string text(wants_one && begins_part ? space_mark : "");
    for (const char c : piece) {
      if (c == ' ')
        text += space_mark;
      else
        text += c;
    }
    return text;
  }

  /// The length of the beginning of `piece` of which marked() made the first `done` bytes; nullopt if they are only the
  /// first mark.
  static std::optional<size_t> length_before_marks(std::string_view piece, const std::string& made, size_t done) {
    const auto spaces = size_t(std::ranges::count(piece, ' '));
    size_t length = 0, at = made.size() - piece.size() - spaces * (space_mark.size() - 1);
    while (at < done) at += piece[length++] == ' ' ? space_mark.size() : 1;
    return length == 0 && done > 0 ? std::nullopt : std::optional(length);
  }

  /// The same for composed(); nullopt if the beginning ends within characters that are composed together.
  static std::optional<size_t> length_before_nfc(std::string_view piece, const std::string& made, size_t done) {
    if (piece == made) return done;
    size_t length = 0, at = 0;
    while (at < done) {
      size_t end = length + 1;  // an ASCII character is not composed with those before it
      while (end < piece.size() && !is_ascii(piece[end])) ++end;
      at += end == length + 1 ? 1 : composed(piece.substr(length, end - length)).size();
      length = end;
    }
    return at == done ? std::optional(length) : std::nullopt;
  }

  static bool is_ascii(char byte) { return uint8_t(byte) < 0x80; }

  /// The position of the last ASCII character; 0 if there is none.
  static size_t last_ascii(std::string_view text) {
    size_t at = text.size();
    while (at > 0 && !is_ascii(text[at - 1])) --at;
    return at == 0 ? 0 : at - 1;
  }

  size_t encode_word(std::string_view word, bool more_follows, std::vector<int32_t>& ids) const {
    if (more_follows) return bpe_.ignore_merges ? 0 : merges_.encode_begin(word, ids);
    merges_.encode(word, ids);
    return word.size();
  }

  /// Splits a piece by the patterns from `level` on and encodes the words; returns the number of bytes encoded.
  size_t split(std::string_view piece, size_t level, bool begins, bool more_follows, std::vector<int32_t>& ids) const {
    if (piece.empty()) return 0;
    if (!bpe_.add_prefix_space || level != bpe_.prefixed_split || !begins || piece[0] == ' ')
      return split_by_pattern(piece, level, more_follows, ids);
    const std::string prefixed = ' ' + std::string(piece);
    const size_t kept = ids.size(), done = split_by_pattern(prefixed, level, more_follows, ids);
    return unless_lost(done == 1 ? std::nullopt : std::optional(done - std::min<size_t>(done, 1)), kept, ids);
  }

  size_t split_by_pattern(std::string_view piece, size_t level, bool more_follows, std::vector<int32_t>& ids) const {
    if (level == splits_.size()) return encode_word(piece, more_follows, ids);
    using Kind = SplitPattern::Match::Kind;
    size_t done = 0;
    for (size_t from = 0; done < piece.size();) {
      const SplitPattern::Match match = splits_[level].find(piece, from, more_follows);
      if (more_follows && match.kind != Kind::found) break;
      if (match.begin == match.end && match.begin == done) {  // cuts nothing: as there, on from the next character
        for (++from; from < piece.size() && is_continuation(piece[from]);) ++from;
        continue;
      }
      if (match.begin > done && !bpe_.splits[level].keeps_only_matches)
        split(piece.substr(done, match.begin - done), level + 1, true, false, ids);
      if (match.kind == Kind::found)
        split(piece.substr(match.begin, match.end - match.begin), level + 1, true, false, ids);
      from = done = match.end;
    }
    return done;
  }

  TokenizerJson bpe_;
  std::vector<bool> is_special_;  ///< by id: decode() leaves it out
  int32_t end_of_text_;
  bool splits_special_;  ///< special tokens in a text are text
  BytePairMerges merges_;
  AddedTokens raw_added_, normalized_added_;
  bool looks_back_ = false;   ///< whether a split depends on the text before it
  bool takes_space_ = false;  ///< whether white space around an added token may belong to it
  SplitPattern trailing_space_{R"(\s+\z)", "white space"}, leading_space_{R"(\A\s+)", "white space"};
  std::vector<SplitPattern> splits_;
};

/// What a tokenizer_config.json says otherwise than its tokenizer.json; "" if nothing. transformers follows it then.
std::string contradiction(const TokenizerConfigFile& config, const TokenizerJson& bpe) {
  std::map<std::string_view, const TokenizerJson::AddedToken*> added;
  for (const TokenizerJson::AddedToken& token : bpe.added) added[token.content] = &token;
  for (const TokenizerConfigFile::AddedToken& token : config.added) {
    const auto found = added.find(token.content);
    if (found == added.end() || found->second->id != token.id)
      return "its added_tokens_decoder has " + printable(token.content) + " with the id " + std::to_string(token.id);
    const TokenizerJson::AddedToken& there = *found->second;
    if (token.single_word || token.lstrip != there.lstrip || token.rstrip != there.rstrip ||
        ((bpe.normalizes_to_nfc || bpe.byte_fallback) && token.normalized != there.normalized))
      return "its added_tokens_decoder has other properties of " + printable(token.content);
  }
  for (const std::string& token : config.named)
    if (!added.contains(token)) return "it (or an older file beside it) names the special token " + printable(token);
  if (!bpe.byte_fallback && config.byte_level_prefix.value_or(bpe.add_prefix_space) != bpe.add_prefix_space)
    return "its tokenizer_class has another add_prefix_space";
  return "";
}

}  // namespace

std::unique_ptr<Tokenizer> json_tokenizer(const fs::path& file) {
  TokenizerJson bpe = read_tokenizer_json(file);
  const std::string where = (file.parent_path() / tokenizer_config_name).string();
  const auto refuse = [&](const std::string& why) { throw Error(ExitStatus::data, where + ": " + why); };
  const auto config = read_tokenizer_config(file);
  if (!config) refuse("it does not exist; it must contain the eos_token of " + file.filename().string());
  if (config->eos_token.empty()) refuse("it names no eos_token, the token that ends a text");
  const auto end = std::ranges::find(bpe.added, config->eos_token, &TokenizerJson::AddedToken::content);
  if (end == bpe.added.end())
    refuse("its eos_token " + printable(config->eos_token) + " is not one of the added tokens of " +
           file.filename().string());
  if (const std::string what = contradiction(*config, bpe); !what.empty())
    refuse(what + ", unlike " + file.filename().string() +
           ", so that transformers and the tokenizers library make different ids; save the tokenizer again with "
           "save_pretrained()");
  const int32_t end_of_text = end->id;
  if (bpe.byte_fallback && !config->adds_prefix_space) bpe.first_mark = TokenizerJson::FirstMark::none;
  return std::make_unique<JsonTokenizer>(file, std::move(bpe), end_of_text, config->split_special_tokens);
}

}  // namespace wmtp
