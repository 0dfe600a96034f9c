// Lossless tokenization: decode(encode(text)) == text for every UTF-8 text with a model trained here.
//
// SentencePiece alone does not guarantee that. It represents a space as U+2581, so that a U+2581 in the text would
// decode to a space: here it is encoded as its three bytes. Its decoder repairs invalid UTF-8: here ids are decoded
// through a table of each piece's bytes. No piece has a newline after its first byte, so that a text may be split
// before any newline and encoded in parts. A BPE joins two characters only if a piece contains both in a row. Between
// all others, a text is cut into words, and each word is encoded once (WordCache).
//
// A model that adds a space before a text, like Llama's, is loaded again without that, and gets the text with a space
// before it; U+2581 is a space to it. A model that normalizes texts otherwise gets each as a whole, which is held in
// memory.
#include "tokenizer/torch/tokenizers.hpp"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <iterator>
#include <tuple>
#include <unordered_map>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "base/work_progress.hpp"
#include "data/text/text_stream.hpp"
#include "io/durable_file.hpp"
#include "io/file_kind.hpp"
#include "io/input_file.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/tokenizer_export.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizer_json.hpp"
#include "tokenizer/word_cache.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view normalization_probe = "\n x  \xc2\xbd\n";  // normalizers change this
constexpr std::string_view unknown_mark = "\xe2\x96\x85";             // U+2585, reserved by the trainer
constexpr size_t training_bytes = 8 << 20;  // more text changes few pieces and costs 1 s per megabyte
constexpr size_t sentence_bytes = 4096;
constexpr int num_indents = 6;

class ByteTokenizer : public Tokenizer {
 public:
  Reads reads() const override { return Reads::bytes; }
  int64_t vocab_size() const override { return byte_vocab_size; }
  int64_t end_of_text() const override { return byte_vocab_size - 1; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids(text.size());
    std::transform(text.begin(), text.end(), ids.begin(), [](char c) { return uint8_t(c); });
    return ids;
  }

  std::string decode(const std::vector<int32_t>& ids) const override {
    std::string text;
    for (int32_t id : ids)
      if (id >= 0 && id < 256) text += char(id);
    return text;
  }
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const fs::path& model) : model_(model) {
    check_file_kind(model, FileUse::tokenizer);
    const auto loaded = processor_.Load(model.string());
    if (!loaded.ok() || processor_.GetPieceSize() == 0)
      throw Error(ExitStatus::data,
                  model.string() +
                      " is not a SentencePiece model; choose one, or a tokenizer.json (if in the cache folder: delete "
                      "it, and the next run retrains it)");
    if (processor_.eos_id() < 0)
      throw Error(ExitStatus::data, model.string() + " has no end-of-text piece (eos_id is off); train it with one");
    for (int id = 0; id < processor_.GetPieceSize(); ++id) bytes_.push_back(token_bytes(id));
    for (char byte : space_mark) {
      const auto at = std::find(bytes_.begin(), bytes_.end(), std::string(1, byte));
      if (at == bytes_.end())
        throw Error(ExitStatus::data, model.string() + " has no pieces for single bytes; train it with byte_fallback");
      space_mark_ids_.push_back(int32_t(at - bytes_.begin()));
    }
    const auto spans_lines = [](const std::string& piece) { return piece.find('\n', 1) != std::string::npos; };
    keeps_texts_ = std::none_of(bytes_.begin(), bytes_.end(), spans_lines) &&
                   decode(encode(normalization_probe)) == normalization_probe;
    if (!keeps_texts_) open_without_prefix(model);
    has_words_ = (keeps_texts_ || without_prefix_) && is_sentencepiece_bpe(model);
    if (!has_words_) without_prefix_.reset();
    for (const std::string& piece : bytes_)
      for (size_t i = 1; i < piece.size(); ++i) joined_[byte(piece[i - 1])].set(byte(piece[i]));
    if (const auto config = read_tokenizer_config(model)) apply(*config, model);
  }

  Reads reads() const override { return Reads::utf8; }
  bool encodes_continuations() const override { return keeps_texts_ || without_prefix_; }
  int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  int64_t end_of_text() const override { return processor_.eos_id(); }
  std::vector<int32_t> prefix_ids() const override { return prefix_ids_; }

  size_t encode_begin(std::string_view text, bool more, std::vector<int32_t>& ids, int32_t before) const override {
    warn_of_control(text);
    if (!without_prefix_) return more && !keeps_texts_ ? 0 : Tokenizer::encode_begin(text, more, ids, before);
    const size_t length = more ? last_cut(text) : text.size();
    if (length == 0) return 0;
    std::string spaced(before < 0 ? " " : "");
    for (size_t at = 0; at < length; at += length_at(text, at)) spaced += byte_at(text, at);
    add_words(spaced, ids);
    return length;
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    if (without_prefix_) {
      encode_begin(text, /*more=*/false, ids, /*before=*/-1);
      return ids;
    }
    warn_of_control(text);
    if (!keeps_texts_) return ids_of(text);
    for (size_t begin = 0; begin <= text.size();) {
      const size_t mark = std::min(text.find(space_mark, begin), text.size());
      add_words(text.substr(begin, mark - begin), ids);
      if (mark < text.size()) ids.insert(ids.end(), space_mark_ids_.begin(), space_mark_ids_.end());
      begin = mark + space_mark.size();
    }
    return ids;
  }

  std::string decode(const std::vector<int32_t>& ids) const override {
    std::string text;
    for (int32_t id : ids)
      if (id >= 0 && id < int32_t(bytes_.size())) text += bytes_[size_t(id)];
    return text;
  }

 private:
  static unsigned char byte(char c) { return uint8_t(c); }

  size_t end_of_word(std::string_view text, size_t begin) const {
    size_t end = begin + 1;
    while (end < text.size() && (is_continuation(text[end]) || joined_[byte(text[end - 1])][byte(text[end])])) ++end;
    return end;
  }

  void add_words(std::string_view text, std::vector<int32_t>& ids) const {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = has_words_ ? end_of_word(text, begin) : text.size();
      words_.append(text.substr(begin, end - begin), ids, [this](std::string_view word) { return ids_of(word); });
      begin = end;
    }
  }

  /// The same model without the space before a text, if it changes nothing else in a text.
  void open_without_prefix(const fs::path& model) {
    constexpr std::string_view add_dummy_prefix_off("\x1a\x02\x18\x00", 4);  // of ModelProto.normalizer_spec, merged
    const std::string bytes = read_small_file(model, max_tokenizer_bytes).append(add_dummy_prefix_off);
    auto without = std::make_unique<sentencepiece::SentencePieceProcessor>();
    if (!without->LoadFromSerializedProto(bytes).ok()) return;
    const std::vector<int32_t> whole = ids_of(normalization_probe);
    without_prefix_ = std::move(without);
    if (decode(ids_of(normalization_probe)) != normalization_probe ||
        ids_of(std::string(1, ' ').append(normalization_probe)) != whole)
      without_prefix_.reset();
  }

  // U+2581 counts as the space that it is to a model that adds one.
  static bool is_mark(std::string_view text, size_t at) { return text.substr(at, space_mark.size()) == space_mark; }
  static size_t length_at(std::string_view text, size_t at) { return is_mark(text, at) ? space_mark.size() : 1; }
  static char byte_at(std::string_view text, size_t at) { return is_mark(text, at) ? ' ' : text[at]; }

  /// The last place before the last character, which may be incomplete, between two that no piece has in a row; 0 if
  /// there is none.
  size_t last_cut(std::string_view text) const {
    size_t at = text.empty() ? 0 : character_start(text, text.size() - 1);
    while (at > 0 && (at = character_start(text, at - 1)) > 0) {
      const size_t left = character_start(text, at - 1);
      const char last = is_mark(text, left) ? ' ' : text[at - 1];
      if (!joined_[byte(last)][byte(byte_at(text, at))]) break;
    }
    return at;
  }

  std::vector<int32_t> ids_of(std::string_view text) const {
    std::vector<int> ids;
    const auto& processor = without_prefix_ ? *without_prefix_ : processor_;
    const auto status = processor.Encode({text.data(), text.size()}, &ids);
    if (!status.ok()) throw Error(ExitStatus::bug, "SentencePiece cannot encode a text: " + status.ToString());
    return ids;
  }

  bool is_piece(const std::string& name, int id) const {
    return id >= 0 && id < processor_.GetPieceSize() && processor_.IdToPiece(id) == name;
  }

  /// The tokens that the file names, which transformers adds where the model lacks them, and the BOS.
  void apply(const TokenizerConfigFile& config, const fs::path& model) {
    const auto refuse = [&](const std::string& what) { throw Error(ExitStatus::data, model.string() + " " + what); };
    const std::string config_file = std::string(tokenizer_config_name) + " (or an older file) in the same folder";
    const auto refuse_token = [&](const std::string& token) {
      if (token != config.pad_token)
        refuse("has no piece " + token + ", which " + config_file +
               " adds, so that transformers makes other ids; use a tokenizer.json, as save_pretrained() writes it");
    };
    for (const TokenizerConfigFile::AddedToken& token : config.added)
      if (!is_piece(token.content, int(token.id))) refuse_token(token.content);
    for (const std::string& token : config.named)
      if (token != config.bos_token && !is_piece(token, processor_.PieceToId(token))) refuse_token(token);
    if (const std::string& end = config.eos_token; !end.empty() && !is_piece(end, processor_.eos_id()))
      refuse("ends texts with " + processor_.IdToPiece(processor_.eos_id()) + ", but the eos_token of " + config_file +
             " is " + end + "; use a tokenizer.json, as save_pretrained() writes it");
    for (int id = 0; id < processor_.GetPieceSize() && !config.split_special_tokens; ++id)
      if (processor_.IsControl(id)) control_.add(processor_.IdToPiece(id), {id, "", true, false});
    control_.sort();
    if (!config.add_bos_token) return;
    const std::string& name = config.bos_token;
    const int id = name.empty() ? processor_.bos_id() : processor_.PieceToId(name);
    if (id < 0 || processor_.IsUnknown(id))
      refuse("has no " + (name.empty() ? "BOS piece" : "piece " + name) + ", and " + tokenizer_config_name +
             " in the same folder sets add_bos_token; set it to false");
    prefix_ids_ = {id};
  }

  /// Once: SentencePiece never reads a control piece in a text, as Meta's own programs do not, but transformers does.
  void warn_of_control(std::string_view text) const {
    if (has_warned_ || control_.longest() == 0) return;
    if (const auto found = control_.find(text, 0); found && !has_warned_.exchange(true))
      log_warning(model_.string() + ": a text contains " + found->token->content +
                  ", which becomes the tokens of its characters; transformers reads the one token: if that is meant, "
                  "use a tokenizer.json, as save_pretrained() writes it");
  }

  std::string token_bytes(int id) const {
    if (processor_.IsControl(id) || processor_.IsUnknown(id)) return {};
    const std::string& piece = processor_.IdToPiece(id);
    if (processor_.IsByte(id)) return std::string(1, char(std::stoi(piece.substr(3, 2), nullptr, 16)));
    std::string bytes;
    for (size_t at = 0; at < piece.size();) {
      const bool space = std::string_view(piece).substr(at, space_mark.size()) == space_mark;
      bytes += space ? ' ' : piece[at];
      at += space ? space_mark.size() : 1;
    }
    return bytes;
  }

  fs::path model_;
  sentencepiece::SentencePieceProcessor processor_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> without_prefix_;  ///< if it is all that distinguishes texts
  std::vector<std::string> bytes_;                                         ///< per piece; empty for control pieces
  std::vector<int32_t> space_mark_ids_, prefix_ids_;
  bool keeps_texts_ = true;  ///< decoded texts equal the encoded ones
  bool has_words_ = false;   ///< cutting a text where no piece joins two characters does not change its ids
  std::array<std::bitset<256>, 256> joined_;  ///< whether a piece has these two bytes in a row
  mutable WordCache words_;
  AddedTokens control_;  ///< those that transformers would read in a text
  mutable std::atomic<bool> has_warned_ = false;
};

class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::vector<std::string>& lines) : lines_(lines) {}
  bool done() const override { return next_ >= lines_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return lines_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& lines_;
  size_t next_ = 0;
};

/// Adds the lines of `text`. Lines that the trainer would drop silently (long ones, and those with a reserved
/// character) are split into shorter ones, so that only the character at the split is lost.
void add_lines(std::string_view text, std::vector<std::string>& lines) {
  const auto is_cut = [&](size_t at) {
    return text[at] == '\n' || text[at] == '\0' || text.substr(at, 3) == space_mark ||
           text.substr(at, 3) == unknown_mark;
  };
  size_t begin = 0;
  const auto end_line = [&](size_t end, size_t next) {
    if (end > begin) lines.emplace_back(text.substr(begin, end - begin));
    begin = next;
  };
  for (size_t at = 0; at < text.size(); ++at) {
    const bool starts_character = !is_continuation(text[at]);
    if (starts_character && is_cut(at))
      end_line(at, at + (text[at] == '\n' || text[at] == '\0' ? 1 : 3));
    else if (starts_character && at >= begin + sentence_bytes)
      end_line(at, at);
  }
  end_line(text.size(), text.size());
}

Error truncated(const TextPart& part) {
  return Error(ExitStatus::data, part.file.string() + " was truncated while it was read");
}

/// Adds lines of a file's documents, at most `room` bytes, and subtracts their size from `room`. Adds nothing if a
/// document is not UTF-8: such files are skipped, as in encoding.
void add_lines_of(const TextPart& part, size_t& room, std::vector<std::string>& lines) {
  TextStream in(part.file, part.as_bytes);
  std::vector<std::string> found;
  size_t left = room;
  for (const TextRange& document : part.documents) {
    const auto bytes = size_t(document.end - document.begin);
    std::string text(std::min(left, bytes), '\0');
    in.skip_to(document.begin);
    if (in.read(text.data(), text.size()) < text.size()) throw truncated(part);
    const size_t valid = valid_utf8_prefix(text);
    if (valid < text.size() && !(text.size() < bytes && valid + 4 > text.size())) return;
    left -= text.size();
    add_lines(std::string_view(text).substr(0, valid), found);
    if (left == 0) break;
  }
  room = left;
  std::move(found.begin(), found.end(), std::back_inserter(lines));
}

/// Hash of the documents in `part` only: held-out ones do not affect the order.
std::string text_part_hash(const TextPart& part) {
  TextStream in(part.file, part.as_bytes);
  Sha256 hash;
  std::string piece;
  for (const TextRange& document : part.documents) {
    in.skip_to(document.begin);
    for (int64_t left = document.end - document.begin; left > 0; left -= int64_t(piece.size())) {
      piece.resize(size_t(std::min<int64_t>(left, 1 << 20)));
      if (in.read(piece.data(), piece.size()) < piece.size()) throw truncated(part);
      hash.add(piece);
    }
  }
  return hash.hex();
}

/// The tokenizer's training lines, up to `training_bytes`: files in the order of their content hashes, which favours no
/// folder and does not depend on the location.
std::vector<std::string> training_lines(const std::vector<TextPart>& parts) {
  std::vector<std::pair<std::string, const TextPart*>> by_hash;
  for (const TextPart& part : parts) by_hash.emplace_back(text_part_hash(part), &part);
  std::sort(by_hash.begin(), by_hash.end(), [](const auto& one, const auto& other) {
    return std::tie(one.first, one.second->file) < std::tie(other.first, other.second->file);
  });
  std::vector<std::string> lines;
  size_t room = training_bytes;
  for (const auto& [hash, part] : by_hash)
    if (room > 0) add_lines_of(*part, room, lines);
  return lines;
}

/// A newline, and a newline with 1 to 6 levels of indentation: the most common pieces in code, which the trainer cannot
/// find because it sees single lines. On Python's standard library: 7.1% fewer ids.
std::string whole_symbols() {
  std::string symbols = "\n,\t", indent = "\n";
  for (int level = 0; level < num_indents; ++level) {
    for (int i = 0; i < 4; ++i) indent += space_mark;
    symbols.append(",").append(indent);
  }
  return symbols;
}

/// Extracts 309 from "Vocabulary size is smaller than required_chars. 100 vs 309. …"; "" for other messages.
std::string fewest_pieces(const std::string& message) {
  const size_t about = message.find("required_chars. ");
  const size_t versus = about == std::string::npos ? about : message.find(" vs ", about);
  if (versus == std::string::npos) return {};
  return message.substr(versus + 4, message.find('.', versus) - versus - 4);
}

}  // namespace

std::unique_ptr<Tokenizer> byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const fs::path& model) {
  return std::make_unique<SentencePieceTokenizer>(model);
}

std::unique_ptr<Tokenizer> open_tokenizer(const Experiment& experiment, const fs::path& file) {
  if (experiment.data.tokenizer.kind == TokenizerKind::byte) return byte_tokenizer();
  auto tokenizer = is_tokenizer_json(file) ? json_tokenizer(file) : sentencepiece_tokenizer(file);
  if (experiment.data.tokenizer.kind == TokenizerKind::file && tokenizer->vocab_size() > experiment.model.vocab_size)
    throw Error(ExitStatus::data, "[data.tokenizer] the tokenizer has " + with_thousands(tokenizer->vocab_size()) +
                                      " ids, the model " + with_thousands(experiment.model.vocab_size) +
                                      "; set [model] vocab_size to that or more");
  return tokenizer;
}

void train_bpe(const std::vector<TextPart>& parts, int64_t vocab_size, const fs::path& model) {
  const std::vector<std::string> lines = training_lines(parts);
  const std::string found = counted(int64_t(lines.size()), "line") + " in " + counted(int64_t(parts.size()), "file");
  if (lines.empty())
    throw Error(ExitStatus::data, "no text to train a tokenizer on (" + found + "); check data.tokenizer.files");
  const std::unordered_map<std::string, std::string> settings{
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(vocab_size)},
      {"hard_vocab_limit", "false"},  // having too few pieces is reported below, with their number
      {"byte_fallback", "true"},
      {"split_digits", "true"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"user_defined_symbols", whole_symbols()},
      {"max_sentence_length", std::to_string(2 * sentence_bytes)},
      {"num_threads", "1"},  // for the same pieces in the same order every time
      {"minloglevel", "3"},
  };
  Lines sentences(lines);
  std::string bytes;
  const auto trained = sentencepiece::SentencePieceTrainer::Train(settings, &sentences, &bytes);
  if (!trained.ok()) {
    const std::string why = trained.ToString();
    const std::string fewest = fewest_pieces(why);
    throw Error(ExitStatus::data,
                "cannot train a tokenizer of " + with_thousands(vocab_size) + " pieces on " + found +
                    (fewest.empty() ? ": " + why
                                    : ": all bytes and the text's characters need at least " + fewest +
                                          " pieces; set data.tokenizer.vocab_size to that or more"));
  }
  sentencepiece::SentencePieceProcessor made;
  if (!made.LoadFromSerializedProto(bytes).ok())
    throw Error(ExitStatus::bug, "the tokenizer just trained cannot be loaded");
  if (made.GetPieceSize() < vocab_size)
    throw Error(ExitStatus::data, "data.tokenizer.vocab_size is " + with_thousands(vocab_size) + ", but " + found +
                                      " contain no more than " + with_thousands(made.GetPieceSize()) +
                                      " pieces; set it to at most that, or provide more text");
  write_file_durably(model, bytes);
}

std::unique_ptr<Tokenizer> prepare_tokenizer(const Experiment& experiment, const fs::path& model,
                                             const fs::path& folder, const std::function<std::vector<TextPart>()>& text,
                                             const std::function<void(const std::string&)>& log) {
  const TokenizerConfig& config = experiment.data.tokenizer;
  if (config.kind == TokenizerKind::file) {
    const fs::path file = experiment.resolve(config.file);
    copy_tokenizer_files(file, folder);
    return open_tokenizer(experiment, file);
  }
  if (config.kind == TokenizerKind::bpe) {
    if (!fs::exists(model)) {
      const std::vector<TextPart> parts = text();
      log("training a tokenizer of " + with_thousands(config.vocab_size) + " pieces on " +
          counted(int64_t(parts.size()), "file"));
      const WorkProgress progress("training a tokenizer");
      train_bpe(parts, config.vocab_size, model);
    }
    fs::copy_file(model, folder / tokenizer_model_name);
  }
  return open_tokenizer(experiment, tokenizer_file_in(folder));
}

}  // namespace wmtp
