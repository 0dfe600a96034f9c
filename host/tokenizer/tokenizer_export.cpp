#include "tokenizer/tokenizer_export.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "io/input_file.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizer_json.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// Iterates over the fields of a message in protobuf's wire format.
class Message {
 public:
  explicit Message(std::string_view bytes) : bytes_(bytes) {}

  /// False at the end and on malformed bytes; the latter set broken().
  bool next() {
    if (bytes_.empty() || broken_) return false;
    const uint64_t key = varint();
    field_ = key >> 3;
    const uint64_t type = key & 7;
    number_ = type == 0 ? varint() : 0;
    text_ = type == 2 ? take(varint()) : type == 1 ? take(8) : type == 5 ? take(4) : std::string_view();
    if (type == 3 || type == 4 || type > 5) broken_ = true;
    return !broken_;
  }
  bool broken() const { return broken_; }
  uint64_t field() const { return field_; }
  uint64_t number() const { return number_; }
  std::string_view text() const { return text_; }
  float real() const {
    float value = 0;
    if (text_.size() == sizeof value) std::memcpy(&value, text_.data(), sizeof value);
    return value;
  }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) break;
      const auto byte = uint8_t(bytes_[0]);
      bytes_.remove_prefix(1);
      value |= uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    broken_ = true;
    return 0;
  }
  std::string_view take(uint64_t size) {
    if (size > bytes_.size()) {
      broken_ = true;
      return {};
    }
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_, text_;
  uint64_t field_ = 0, number_ = 0;
  bool broken_ = false;
};

/// sentencepiece_model.proto: ModelProto.SentencePiece.
struct Piece {
  enum Type : uint64_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  std::string text;
  float score = 0;
  uint64_t type = normal;
};

struct SentencePieceModel {
  std::vector<Piece> pieces;
  bool is_bpe = false;
  bool keeps_texts = true;  ///< no normalization, no spaces added or removed
};

Piece piece_of(Message message) {
  Piece piece;
  while (message.next()) {
    if (message.field() == 1) piece.text = message.text();
    if (message.field() == 2) piece.score = message.real();
    if (message.field() == 3) piece.type = message.number();
  }
  return piece;
}

/// NormalizerSpec; its flags default to true.
bool keeps_texts(Message spec) {
  bool adds_prefix = true, removes_spaces = true, escapes_spaces = true, has_map = false;
  while (spec.next()) {
    if (spec.field() == 2) has_map = !spec.text().empty();
    if (spec.field() == 3) adds_prefix = spec.number() != 0;
    if (spec.field() == 4) removes_spaces = spec.number() != 0;
    if (spec.field() == 5) escapes_spaces = spec.number() != 0;
  }
  return !adds_prefix && !removes_spaces && escapes_spaces && !has_map;
}

bool is_bpe(Message trainer_spec) {
  constexpr uint64_t model_type = 3, bpe = 2;
  bool found = false;
  while (trainer_spec.next()) found = found || (trainer_spec.field() == model_type && trainer_spec.number() == bpe);
  return found;
}

SentencePieceModel read_model(const fs::path& file) {
  const std::string bytes = read_small_file(file, max_tokenizer_bytes);
  SentencePieceModel model;
  Message message(bytes);
  while (message.next()) {
    if (message.field() == 1) model.pieces.push_back(piece_of(Message(message.text())));
    if (message.field() == 2) model.is_bpe = is_bpe(Message(message.text()));
    if (message.field() == 3) model.keeps_texts = keeps_texts(Message(message.text()));
  }
  if (message.broken() || model.pieces.empty())
    throw Error(ExitStatus::data, file.string() + " is not a SentencePiece model; export its model again");
  return model;
}

/// All pairs of pieces that join to a piece, by descending score of the result, then by ids.
Json merges_of(const SentencePieceModel& model, const std::unordered_map<std::string_view, size_t>& ids) {
  std::vector<std::tuple<float, size_t, size_t>> merges;
  for (const Piece& piece : model.pieces) {
    if (piece.type != Piece::normal) continue;
    for (size_t at = 1; at < piece.text.size(); ++at) {
      const std::string_view text = piece.text;
      const auto left = ids.find(text.substr(0, at)), right = ids.find(text.substr(at));
      if (left != ids.end() && right != ids.end()) merges.emplace_back(-piece.score, left->second, right->second);
    }
  }
  std::sort(merges.begin(), merges.end());
  Json list = Json::array();
  for (const auto& [score, left, right] : merges) list.push_back({model.pieces[left].text, model.pieces[right].text});
  return list;
}

Json added_token(size_t id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", !special}, {"special", special}};
}

}  // namespace

Json byte_tokenizer_json() {
  constexpr unsigned bytes = 256;
  Json vocabulary = Json::object();
  for (unsigned byte = 0; byte < bytes; ++byte) vocabulary[byte_letters()[byte]] = byte;
  const Json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", {added_token(bytes, byte_begin_token, true), added_token(bytes + 1, byte_end_token, true)}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", Json::array()}}}};
}

bool is_sentencepiece_bpe(const fs::path& model) { return read_model(model).is_bpe; }

std::optional<Json> sentencepiece_tokenizer_json(const fs::path& file) {
  const SentencePieceModel model = read_model(file);
  if (!model.is_bpe || !model.keeps_texts) return std::nullopt;
  Json vocabulary = Json::object(), added = Json::array();
  std::unordered_map<std::string_view, size_t> ids;
  std::string unknown;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    vocabulary[piece.text] = id;
    if (piece.type == Piece::normal) ids.emplace(piece.text, id);
    if (piece.type == Piece::unknown) unknown = piece.text;
    if (piece.type == Piece::unknown || piece.type == Piece::control || piece.type == Piece::user_defined)
      added.push_back(added_token(id, piece.text, piece.type != Piece::user_defined));
  }
  const Json space{{"String", " "}}, mark{{"String", space_mark}};
  return Json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", std::move(added)},
              {"normalizer", {{"type", "Replace"}, {"pattern", space}, {"content", space_mark}}},
              {"pre_tokenizer", nullptr},
              {"post_processor", nullptr},
              {"decoder",
               {{"type", "Sequence"},
                {"decoders",
                 {{{"type", "Replace"}, {"pattern", mark}, {"content", " "}},
                  {{"type", "ByteFallback"}},
                  {{"type", "Fuse"}}}}}},
              {"model",
               {{"type", "BPE"},
                {"unk_token", unknown},
                {"fuse_unk", true},
                {"byte_fallback", true},
                {"vocab", std::move(vocabulary)},
                {"merges", merges_of(model, ids)}}}};
}

Json exported_tokenizer_config(const std::string& begin, const std::string& end) {
  return {{"add_bos_token", false}, {"bos_token", begin},           {"clean_up_tokenization_spaces", false},
          {"eos_token", end},       {"split_special_tokens", true}, {"tokenizer_class", "PreTrainedTokenizerFast"}};
}

}  // namespace wmtp
