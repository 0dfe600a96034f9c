#include "tokenizer/vocabulary_difference.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "io/input_file.hpp"
#include "tokenizer/sentencepiece_model.hpp"
#include "tokenizer/token_table.hpp"
#include "tokenizer/tokenizer_export.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t max_id = (1 << 24) - 1;

struct Token {
  enum Kind { none, ordinary, added, special } kind = none;
  std::string text;
};

struct Vocabulary {
  std::vector<Token> tokens;  ///< by id
  TokenLists lists;           ///< of a tokenizer.json
  bool has_merges = false;

  void set(uint64_t id, Token::Kind kind, std::string_view text) {
    if (id > max_id) throw Error(ExitStatus::data, "the id " + std::to_string(id) + " is out of range");
    if (id >= tokens.size()) tokens.resize(id + 1);
    tokens[id] = {kind, std::string(text)};
  }
  Token token(size_t id) const { return id < tokens.size() ? tokens[id] : Token(); }
};

Vocabulary vocabulary_of_json(std::string_view text, const std::string& where) {
  Vocabulary read;
  const Json document = parse_tokenizer_json(text, where, read.lists);
  const TokenTable& table = read.lists.vocabulary;
  if (table.size() == 0 || !read.lists.vocabulary_mistake.empty() || !read.lists.merges_mistake.empty())
    throw Error(ExitStatus::data, where + " has no vocabulary of tokens and ids");
  for (size_t i = 0; i < table.size(); ++i) read.set(table.id(i), Token::ordinary, table.token(i));
  for (const Json& one : document.value("added_tokens", Json::array()))
    if (one.is_object() && one.value("id", Json()).is_number_unsigned() && one.value("content", Json()).is_string())
      read.set(one["id"], one.value("special", Json()) == true ? Token::special : Token::added,
               one["content"].get_ref<const std::string&>());
  read.has_merges = read.lists.is_list;
  return read;
}

Vocabulary vocabulary_of_pieces(const fs::path& file) {
  Vocabulary read;
  const SentencePieceModel model = read_sentencepiece_model(file);
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    const bool is_ordinary = piece.type == SentencePiece::normal || piece.type == SentencePiece::byte;
    read.set(id,
             is_ordinary                                 ? Token::ordinary
             : piece.type == SentencePiece::user_defined ? Token::added
                                                         : Token::special,
             piece.text);
  }
  return read;
}

std::optional<Vocabulary> read_vocabulary(const fs::path& file) try {
  if (file.empty()) return vocabulary_of_json(byte_tokenizer_json().dump(), "the tokenizer of bytes");
  if (!is_tokenizer_json(file)) return vocabulary_of_pieces(file);
  return vocabulary_of_json(read_small_file(file, max_tokenizer_bytes), file.string());
} catch (const Error& error) {
  if (error.status() != ExitStatus::data) throw;
  return std::nullopt;
}

bool have_same_meaning(const Token& one, const Token& other) {
  if (one.kind == Token::none) return other.kind != Token::ordinary;
  if (other.kind == Token::none) return one.kind != Token::ordinary;
  return one.text == other.text || (one.kind == Token::special && other.kind == Token::special);
}

std::string shown(const Token& token) { return token.kind == Token::none ? "no token" : printable(token.text); }

/// Of vocabularies with the same tokens.
std::optional<VocabularyDifference> merges_difference(const Vocabulary& there, const Vocabulary& here) {
  const MergeTexts &first = there.lists.merges, &second = here.lists.merges;
  for (size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    const bool in_both = i < std::min(first.size(), second.size());
    if (in_both && first.left(i) == second.left(i) && first.right(i) == second.right(i)) continue;
    const auto merged = [&](const MergeTexts& merges) {
      return i < merges.size() ? "merged of " + printable(merges.left(i)) + " and " + printable(merges.right(i))
                               : std::string("not merged");
    };
    const MergeTexts& longer = i < first.size() ? first : second;
    const auto id = there.lists.vocabulary.find(std::string(longer.left(i)).append(longer.right(i)));
    return VocabularyDifference{id.value_or(0), merged(first), merged(second)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<VocabularyDifference> vocabulary_difference(const fs::path& there, const fs::path& here) {
  const bool are_files = !there.empty() && !here.empty();
  if (there == here || (are_files && file_sha256_hex(there) == file_sha256_hex(here))) return std::nullopt;
  const std::optional<Vocabulary> first = read_vocabulary(there), second = read_vocabulary(here);
  if (!first || !second) return std::nullopt;
  for (size_t id = 0; id < std::max(first->tokens.size(), second->tokens.size()); ++id)
    if (const Token one = first->token(id), other = second->token(id); !have_same_meaning(one, other))
      return VocabularyDifference{int64_t(id), shown(one), shown(other)};
  return first->has_merges && second->has_merges ? merges_difference(*first, *second) : std::nullopt;
}

}  // namespace wmtp
