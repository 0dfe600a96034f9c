#include "tokenizer/tokenizer_json.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "io/input_file.hpp"
#include "tokenizer/token_table.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace wmtp {
namespace {

constexpr uint64_t max_id = (1 << 24) - 1;
constexpr const char* gpt2_words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// By GPT-2's letters or, if `named`, by SentencePiece's names: <0x0A>.
std::unordered_map<std::string, char> bytes_by_text(bool named) {
  std::unordered_map<std::string, char> bytes;
  for (unsigned byte = 0; byte < 256; ++byte)
    bytes.emplace(named ? printed("<0x%02X>", byte) : byte_letters()[byte], char(byte));
  return bytes;
}

/// Whether a text in UTF-8 can contain the byte.
bool is_in_utf8(uint8_t byte) { return byte != 0xc0 && byte != 0xc1 && byte < 0xf5; }

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file)
      : where_(file.string()),
        document_(parse_tokenizer_json(read_small_file(file, max_tokenizer_bytes), where_, lists_)) {}

  TokenizerJson read() {
    model();  // truncation and padding are the caller's business, as in transformers: they change no text's ids
    added_tokens();
    if (bpe_.byte_fallback) {
      spaces();
    } else {
      normalizer(part_of("normalizer", "normalizers"));
      pre_tokenizer();
    }
    decoder(part_of("decoder", "decoders"));
    post_processor(part_of("post_processor", "processors"));
    return std::move(bpe_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const { throw Error(ExitStatus::data, where_ + ": " + why); }

  static const Json& at(const Json& object, const char* key) {
    static const Json nothing;
    return object.is_object() && object.contains(key) ? object[key] : nothing;
  }
  static std::string type_of(const Json& part) {
    const Json& type = at(part, "type");
    return type.is_string() ? type.get<std::string>() : "";
  }
  static bool is(const Json& value, std::string_view text) {
    return value.is_string() && value.get_ref<const std::string&>() == text;
  }
  /// A part of the document. Sequences of at most one part are unwrapped, because they have no effect.
  const Json& part_of(const char* key, const char* list) const {
    static const Json nothing;
    const Json* part = &at(document_, key);
    while (type_of(*part) == "Sequence" && at(*part, list).is_array() && at(*part, list).size() < 2)
      part = at(*part, list).empty() ? &nothing : &at(*part, list)[0];
    return *part;
  }
  /// The part's type or, if it has none, its JSON.
  static std::string name_of(const Json& part) {
    const std::string type = type_of(part);
    if (part.is_string()) return printable(part.get<std::string>());
    return printable(type.empty() ? part.dump(-1, ' ', true) : type);
  }
  bool flag(const Json& part, const char* key, const std::string& owner) const {
    const Json& value = at(part, key);
    if (value.is_null()) return false;
    if (!value.is_boolean()) refuse(owner + " " + key + " is " + name_of(value) + ", wanted true or false");
    return value;
  }

  /// The bytes represented by a token's letters.
  std::string bytes_of_letters(const std::string& token) const {
    std::string bytes;
    for (size_t i = 0; i < token.size();) {
      const size_t length = uint8_t(token[i]) < 0x80 ? 1 : 2;
      const auto letter = letters_.find(token.substr(i, length));
      if (letter == letters_.end())
        refuse("the token " + printable(token) + " contains a letter that stands for no byte; wanted a byte-level BPE");
      bytes += letter->second;
      i += length;
    }
    return bytes;
  }

  static std::string with_spaces(std::string token) {
    for (size_t mark = token.find(space_mark); mark != std::string::npos; mark = token.find(space_mark, mark))
      token.replace(mark, space_mark.size(), " ");
    return token;
  }

  /// The bytes of a SentencePiece token.
  std::string bytes_of_piece(const std::string& token) const {
    const auto byte = letters_.find(token);
    return byte != letters_.end() ? std::string(1, byte->second) : with_spaces(token);
  }

  int32_t id_of(std::string_view token, const std::string& what) const {
    const auto found = lists_.vocabulary.find(token);
    if (!found) refuse(what + " " + printable(token) + " is not in the vocabulary");
    return int32_t(*found);
  }

  void set_token(uint64_t id, std::string bytes, const std::string& token) {
    if (id > max_id)
      refuse("the token " + printable(token) + " has id " + std::to_string(id) + ", which is out of range");
    if (id >= bpe_.tokens.size()) bpe_.tokens.resize(id + 1);
    if (!bpe_.tokens[id].empty() && bpe_.tokens[id] != bytes) refuse("two tokens have the id " + std::to_string(id));
    bpe_.tokens[id] = std::move(bytes);
  }

  void model() {
    const Json& model = at(document_, "model");
    if (const std::string type = type_of(model); type != "BPE" && !(type.empty() && model.contains("merges")))
      refuse("model is " + name_of(model) + ", wanted BPE");
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
      if (const Json& value = at(model, key); !value.is_null() && value != "" && value != 0.0)
        refuse(std::string("model ") + key + " is " + name_of(value) + ", wanted null");
    bpe_.byte_fallback = flag(model, "byte_fallback", "model");
    bpe_.ignore_merges = flag(model, "ignore_merges", "model");
    if (bpe_.byte_fallback && bpe_.ignore_merges)
      refuse("model ignore_merges is true, wanted false where byte_fallback is true");
    letters_ = bytes_by_text(bpe_.byte_fallback);
    if (!lists_.is_object) refuse("model has no vocab, wanted an object of tokens and ids");
    if (!lists_.vocabulary_mistake.empty()) refuse(lists_.vocabulary_mistake);
    for (const Json& added : at(document_, "added_tokens"))  // may also be in vocab, and are plain text there
      if (at(added, "content").is_string()) added_contents_.push_back(added["content"].get_ref<const std::string&>());
    std::ranges::sort(added_contents_);
    const TokenTable& vocabulary = lists_.vocabulary;
    bpe_.tokens.reserve(vocabulary.size() + added_contents_.size());
    for (size_t i = 0; i < vocabulary.size(); ++i) {
      const std::string token(vocabulary.token(i));
      if (token.empty()) refuse("the empty string is a token");
      const bool one_character = character_start(token, token.size() - 1) == 0;
      if (bpe_.byte_fallback && one_character) bpe_.characters.emplace(token, int32_t(vocabulary.id(i)));
      if (std::ranges::binary_search(added_contents_, token)) continue;
      set_token(vocabulary.id(i), bpe_.byte_fallback ? bytes_of_piece(token) : bytes_of_letters(token), token);
    }
    const Json& unknown = at(model, "unk_token");
    for (const auto& [letter, byte] : letters_) {
      const auto found = vocabulary.find(letter);
      const auto code = uint8_t(byte);
      if (!found && (bpe_.byte_fallback || (!unknown.is_null() && is_in_utf8(code))))
        refuse("the byte " + std::to_string(code) + " is not a token; wanted all 256" +
               (bpe_.byte_fallback ? "" : ", or no unk_token, found " + name_of(unknown)));
      bpe_.byte_ids[code] = found ? int32_t(*found) : -1;
    }
    merges();
  }

  void merges() {
    if (!lists_.is_list) refuse("model has no merges, wanted a list of merges");
    if (!lists_.merges_mistake.empty())
      refuse("merges contain " + lists_.merges_mistake + ", wanted \"a b\" or [\"a\", \"b\"]");
    bpe_.merges.reserve(lists_.merges.size());
    for (size_t i = 0; i < lists_.merges.size(); ++i) {
      const std::string_view left = lists_.merges.left(i), right = lists_.merges.right(i);
      const std::string result = std::string(left).append(right);
      bpe_.merges.push_back({id_of(left, "merges:"), id_of(right, "merges:"), id_of(result, "merges: the result")});
    }
  }

  void added_tokens() {
    const Json& list = at(document_, "added_tokens");
    if (!list.is_array() && !list.is_null()) refuse("added_tokens is " + name_of(list) + ", wanted a list");
    bpe_.added.reserve(list.size());
    std::unordered_map<std::string, uint64_t> ids;  // of those before; the tokenizers library keeps the first
    uint64_t next = lists_.vocabulary.size();  // the tokenizers library numbers what is not in the vocabulary itself
    for (const Json& one : list) {
      if (!at(one, "content").is_string() || !at(one, "id").is_number_unsigned() || one["content"] == "")
        refuse("added_tokens contain " + name_of(one) + ", wanted objects with id and content");
      const std::string content = one["content"], owner = "the added token " + printable(content);
      if (flag(one, "single_word", owner)) refuse(owner + " has single_word true, wanted false: it is not supported");
      const uint64_t id = one["id"];
      if (const auto [first, is_new] = ids.emplace(content, id); !is_new && first->second != id)
        refuse(owner + " has the ids " + std::to_string(first->second) + " and " + std::to_string(id) + ", wanted one");
      const auto in_vocabulary = lists_.vocabulary.find(content);
      if (in_vocabulary && *in_vocabulary != id)
        refuse(owner + " has the id " + std::to_string(id) + ", but another in model vocab; wanted the same");
      const bool is_repeated = id < bpe_.tokens.size() && bpe_.tokens[id] == content;
      if (!in_vocabulary && !is_repeated && id != next)
        refuse(owner + " has the id " + std::to_string(id) + ", wanted " + std::to_string(next) +
               ", as the tokenizers library numbers tokens that are not in model vocab");
      next = std::max(next, id + 1);
      set_token(id, bpe_.byte_fallback ? with_spaces(content) : content, content);
      bpe_.added.push_back({int32_t(id), content, flag(one, "special", owner), flag(one, "normalized", owner),
                            flag(one, "lstrip", owner), flag(one, "rstrip", owner)});
    }
  }

  void normalizer(const Json& part) {
    if (part.is_null()) return;
    if (type_of(part) != "NFC") refuse("normalizer is " + name_of(part) + ", wanted NFC or null");
    bpe_.normalizes_to_nfc = true;
  }

  /// Gemma's pre_tokenizer has no effect: its normalizer has replaced all spaces.
  static bool splits_at_spaces(const Json& part) {
    return type_of(part) == "Split" && is(at(at(part, "pattern"), "String"), " ") && at(part, "invert") != true;
  }

  /// How spaces become space_marks: by normalizers (older files, Gemma) or by the pre_tokenizer Metaspace.
  void spaces() {
    const Json &normalizer = part_of("normalizer", "normalizers"), &part = part_of("pre_tokenizer", "pretokenizers");
    const bool by_normalizers = part.is_null() || splits_at_spaces(part);
    if (!by_normalizers && !normalizer.is_null())
      refuse("normalizer is " + name_of(normalizer) +
             ", wanted null with a pre_tokenizer, where byte_fallback is true");
    by_normalizers ? marks_by_normalizers(normalizer) : marks_by_metaspace(part);
    bpe_.marks_early = by_normalizers;
  }

  void marks_by_normalizers(const Json& part) {
    bool replaces = false;
    for (const Json& one : type_of(part) == "Sequence" ? at(part, "normalizers") : Json::array({part})) {
      const std::string type = type_of(one);
      if (type == "Prepend" && is(at(one, "prepend"), space_mark) &&
          bpe_.first_mark != TokenizerJson::FirstMark::always)
        bpe_.first_mark = TokenizerJson::FirstMark::always;
      else if (type == "Replace" && is(at(at(one, "pattern"), "String"), " ") && is(at(one, "content"), space_mark))
        replaces = true;
      else
        refuse("normalizer contains " + name_of(one) + ", wanted one Prepend of U+2581, and Replace of spaces by it");
    }
    if (!replaces) refuse("normalizer replaces no spaces, wanted Replace by U+2581, or the pre_tokenizer Metaspace");
  }

  void marks_by_metaspace(const Json& part) {
    using FirstMark = TokenizerJson::FirstMark;
    const std::map<std::string, FirstMark> schemes{
        {"never", FirstMark::none}, {"first", FirstMark::text}, {"always", FirstMark::missing}};
    const Json& name = at(part, "prepend_scheme");
    const auto scheme = schemes.find(name.is_string() ? name.get<std::string>() : "");
    if (type_of(part) != "Metaspace" || !is(at(part, "replacement"), space_mark) || scheme == schemes.end())
      refuse("pre_tokenizer is " + name_of(part) +
             ", wanted Metaspace with U+2581 and a prepend_scheme where byte_fallback is true");
    if (at(part, "split") != false) refuse("pre_tokenizer Metaspace has split true, wanted false: it is not supported");
    bpe_.first_mark = scheme->second;
  }

  void decoder(const Json& part) {
    if (part.is_null()) return;
    const std::set<std::string> known =
        bpe_.byte_fallback ? std::set<std::string>{"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}
                           : std::set<std::string>{"ByteLevel"};
    const bool sequence = bpe_.byte_fallback && type_of(part) == "Sequence";
    for (const Json& one : sequence ? at(part, "decoders") : Json::array({part}))
      if (!known.contains(type_of(one)))
        refuse("decoder is " + name_of(one) + ", wanted " +
               (bpe_.byte_fallback ? "Replace, ByteFallback, Fuse and Strip" : "ByteLevel"));
  }

  void pre_tokenizer() {
    const Json& part = part_of("pre_tokenizer", "pretokenizers");
    const bool sequence = type_of(part) == "Sequence";
    const Json list = sequence ? at(part, "pretokenizers") : Json::array({part});
    if (!list.is_array() || list.empty() || type_of(list.back()) != "ByteLevel")
      refuse("pre_tokenizer is " + name_of(part) + ", wanted ByteLevel, or a Sequence that ends with it");
    for (size_t i = 0; i + 1 < list.size(); ++i) split(list[i]);
    const Json& bytes = list.back();
    bpe_.add_prefix_space = flag(bytes, "add_prefix_space", "pre_tokenizer ByteLevel");
    bpe_.prefixed_split = bpe_.splits.size();
    if (at(bytes, "use_regex").is_null() || flag(bytes, "use_regex", "pre_tokenizer ByteLevel"))
      bpe_.splits.push_back({gpt2_words});
  }

  void split(const Json& part) {
    const std::string type = type_of(part);
    if (type == "Digits") {
      bpe_.splits.push_back({flag(part, "individual_digits", "pre_tokenizer Digits") ? R"(\p{N})" : R"(\p{N}+)"});
      return;
    }
    if (type != "Split")
      refuse("pre_tokenizer contains " + name_of(part) + ", wanted Split, Digits, and ByteLevel at the end");
    const Json& behavior = at(part, "behavior");
    const bool invert = flag(part, "invert", "pre_tokenizer Split"), keeps_all = behavior == "Isolated";
    if (!keeps_all && !(behavior == "Removed" && invert))
      refuse("pre_tokenizer Split has the behavior " + name_of(behavior) + (invert ? ", inverted" : "") +
             ", wanted Isolated, or Removed with invert");
    const Json& pattern = at(part, "pattern");
    const Json &expression = at(pattern, "Regex"), &text = at(pattern, "String");
    if (!expression.is_string() && !text.is_string())
      refuse("pre_tokenizer Split has the pattern " + name_of(pattern) + ", wanted a Regex or a String");
    if (text == "") refuse("pre_tokenizer Split has an empty String");
    bpe_.splits.push_back({expression.is_string() ? expression.get<std::string>() : quoted(text), !keeps_all});
  }

  static std::string quoted(const std::string& text) {
    std::string expression;
    for (const char c : text) {
      if (c == '\\' || std::string_view("^$.[|()?*+{").find(c) != std::string_view::npos) expression += '\\';
      expression += c;
    }
    return expression;
  }

  void post_processor(const Json& part) {
    const std::string type = type_of(part);
    if (part.is_null() || type == "ByteLevel") return;
    if (type == "Sequence") {
      for (const Json& one : at(part, "processors")) post_processor(one);
      return;
    }
    if (type != "TemplateProcessing")
      refuse("post_processor is " + name_of(part) + ", wanted ByteLevel, TemplateProcessing or a Sequence of them");
    if (std::exchange(has_template_, true)) refuse("post_processor has a second TemplateProcessing, wanted one");
    bool in_text = false;
    for (const Json& one : at(part, "single")) {
      if (one.contains("Sequence")) {
        if (in_text) refuse("post_processor TemplateProcessing has the text twice, wanted it once");
        in_text = true;
        continue;
      }
      const Json& id = at(at(one, "SpecialToken"), "id");
      const Json& ids = id.is_string() ? at(at(at(part, "special_tokens"), id.get<std::string>().c_str()), "ids") : id;
      if (!ids.is_array() || in_text)
        refuse("post_processor TemplateProcessing has " + name_of(one) + (in_text ? " after the text" : "") +
               ", wanted special tokens before the text only");
      for (const Json& value : ids) {
        if (!value.is_number_unsigned() || value.get<uint64_t>() >= bpe_.tokens.size())
          refuse("post_processor TemplateProcessing names the id " + name_of(value) + ", which is not a token");
        bpe_.prefix_ids.push_back(value);
      }
    }
    if (!in_text) refuse("post_processor TemplateProcessing lacks the text");
  }

  std::string where_;
  std::unordered_map<std::string, char> letters_;  ///< bytes by letter (byte-level BPE) or by name (byte_fallback)
  TokenLists lists_;
  Json document_;  ///< without the lists
  TokenizerJson bpe_;
  std::vector<std::string_view> added_contents_;  ///< sorted
  bool has_template_ = false;
};

}  // namespace

const std::array<std::string, 256>& byte_letters() {
  static const auto letters = [] {
    std::array<std::string, 256> all;
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      const unsigned code = printable ? byte : next++;
      if (code < 0x80)
        all[byte] = char(code);
      else
        all[byte] = {char(0xc0 | code >> 6), char(0x80 | (code & 0x3f))};
    }
    return all;
  }();
  return letters;
}

TokenizerJson read_tokenizer_json(const std::filesystem::path& file) { return Reader(file).read(); }

}  // namespace wmtp
