// The tokenizer of a tokenizer.json.
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "core/tokenizer/added_tokens.hpp"
#include "core/tokenizer/byte_pair_merges.hpp"
#include "core/tokenizer/split_pattern.hpp"
#include "core/tokenizer/tokenizer.hpp"
#include "core/tokenizer/tokenizer_files.hpp"
#include "core/tokenizer/tokenizer_json.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// UTF-8 text normalized to NFC.
std::string composed(std::string_view text) {
  utf8proc_uint8_t* buffer = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &buffer, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (size < 0) throw std::bad_alloc();  // the text is valid UTF-8, so nothing else can fail
  std::string result(reinterpret_cast<const char*>(buffer), static_cast<size_t>(size));
  std::free(buffer);
  return result;
}

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(const fs::path& file, TokenizerJson bpe, int32_t end_of_text, bool splits_special)
      : bpe_(std::move(bpe)), end_of_text_(end_of_text), splits_special_(splits_special), merges_(bpe_) {
    for (const TokenizerJson::Added& added : bpe_.added) {
      if (added.special) bpe_.tokens[static_cast<size_t>(added.id)].clear();
      if (added.normalized)
        normalized_added_.add(normalized(added.content), added);
      else
        raw_added_.add(added.content, added);
      takes_space_ = takes_space_ || added.lstrip || added.rstrip;
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
    const bool is_valid = valid_utf8(text) == text.size();
    const std::string repaired = is_valid ? "" : repaired_utf8(text);
    encode_begin(is_valid ? text : repaired, /*more_follows=*/false, ids);
    return ids;
  }

  size_t encode_begin(std::string_view text, bool more_follows, std::vector<int32_t>& ids) const override {
    // A prefix applies to the whole text only, and the end of a part may combine with the text that follows.
    if (more_follows && (bpe_.add_prefix_space || bpe_.composes || bpe_.byte_fallback || takes_space_)) return 0;
    const auto words = [&](std::string_view part, bool more_of_part) {
      if (!bpe_.byte_fallback) return split(part, 0, more_of_part, ids);
      if (part.empty()) return part.size();
      if (bpe_.marks_early)
        merges_.encode(part, ids);
      else
        merges_.encode(marked(part, part.data() == text.data()), ids);
      return part.size();
    };
    const auto with_normalized = [&](std::string_view part, bool more_of_part) {
      return between(normalized_added_, part, more_of_part, words, ids);
    };
    const auto with_raw = [&](std::string_view part, bool more_of_part) {
      if (!bpe_.composes && !bpe_.marks_early) return with_normalized(part, more_of_part);
      with_normalized(normalized(part), false);
      return part.size();
    };
    return between(raw_added_, text, more_follows, with_raw, ids);
  }

  std::string decode(const std::vector<int32_t>& ids) const override {
    std::string text;
    for (const int32_t id : ids)
      if (id >= 0 && static_cast<size_t>(id) < bpe_.tokens.size()) text += bpe_.tokens[static_cast<size_t>(id)];
    return text;
  }

 private:
  /// Appends the ids of the added tokens in `text` and calls encode_part(part, more_follows) for the text between them;
  /// returns the number of bytes encoded.
  template <class EncodePart>
  size_t between(const AddedTokens& tokens, std::string_view text, bool more_follows, EncodePart encode_part,
                 std::vector<int32_t>& ids) const {
    // Beyond this, further text may complete a longer token.
    const size_t known =
        more_follows ? start_of_character(text, text.size() - std::min(text.size(), tokens.longest())) : text.size();
    size_t done = 0;
    for (auto found = tokens.find(text, 0); found && found->begin < known; found = tokens.find(text, found->end)) {
      if (found->token->special && splits_special_) continue;
      size_t begin = found->begin;
      if (found->token->lstrip && begin > done) begin = trailing_space_.find(text.substr(0, begin), done, false).begin;
      if (begin > done) encode_part(text.substr(done, begin - done), false);
      ids.push_back(found->token->id);
      done = found->end;
      if (!found->token->rstrip) continue;
      const SplitPattern::Match space = leading_space_.find(text, done, false);
      if (space.kind == SplitPattern::Match::Kind::found) done = space.end;
    }
    return done >= known ? done : done + encode_part(text.substr(done, known - done), more_follows);
  }

  /// What the file's normalizer makes of a text or of an added token.
  std::string normalized(std::string_view text) const {
    if (bpe_.composes) return composed(text);
    return bpe_.marks_early ? marked(text, /*begins_text=*/false) : std::string(text);
  }

  /// A piece with its spaces as space_mark and with a first mark according to FirstMark.
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

  /// Splits a piece by the patterns from `level` on and encodes the words; returns the number of bytes encoded.
  size_t split(std::string_view piece, size_t level, bool more_follows, std::vector<int32_t>& ids) const {
    if (piece.empty()) return 0;
    if (bpe_.add_prefix_space && level == bpe_.prefixed_split && piece[0] != ' ') {
      const std::string prefixed = ' ' + std::string(piece);
      split_by_pattern(prefixed, level, false, ids);
      return piece.size();
    }
    return split_by_pattern(piece, level, more_follows, ids);
  }

  size_t split_by_pattern(std::string_view piece, size_t level, bool more_follows, std::vector<int32_t>& ids) const {
    if (level == splits_.size()) {
      if (more_follows) return 0;
      merges_.encode(piece, ids);
      return piece.size();
    }
    using Kind = SplitPattern::Match::Kind;
    size_t done = 0;
    while (done < piece.size()) {
      const SplitPattern::Match match = splits_[level].find(piece, done, more_follows);
      if (more_follows && match.kind != Kind::found) break;
      if (match.begin > done && !bpe_.splits[level].keeps_only_matches)
        split(piece.substr(done, match.begin - done), level + 1, false, ids);
      if (match.kind == Kind::found) split(piece.substr(match.begin, match.end - match.begin), level + 1, false, ids);
      done = match.end;
    }
    return done;
  }

  TokenizerJson bpe_;
  int32_t end_of_text_;
  bool splits_special_;  ///< special tokens in a text are text
  BytePairMerges merges_;
  AddedTokens raw_added_, normalized_added_;
  bool takes_space_ = false;  ///< whether white space around an added token may belong to it
  SplitPattern trailing_space_{R"(\s+\z)", "white space"}, leading_space_{R"(\G\s+)", "white space"};
  std::vector<SplitPattern> splits_;
};

}  // namespace

std::unique_ptr<Tokenizer> json_tokenizer(const fs::path& file) {
  TokenizerJson bpe = read_tokenizer_json(file);
  const std::string where = (file.parent_path() / tokenizer_config_name).string();
  const auto refuse = [&](const std::string& why) { throw Error(ExitStatus::data, where + ": " + why); };
  const auto config = read_tokenizer_config(file);
  if (!config) refuse("it does not exist; it must contain the eos_token of " + file.filename().string());
  if (config->eos_token.empty()) refuse("it names no eos_token, the token that ends a text");
  const auto end = std::ranges::find(bpe.added, config->eos_token, &TokenizerJson::Added::content);
  if (end == bpe.added.end())
    refuse("its eos_token " + printable(config->eos_token) + " is not one of the added tokens of " +
           file.filename().string());
  const int32_t end_of_text = end->id;
  return std::make_unique<JsonTokenizer>(file, std::move(bpe), end_of_text, config->split_special_tokens);
}

}  // namespace wmtp
