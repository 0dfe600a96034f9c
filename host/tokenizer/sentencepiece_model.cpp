#include "tokenizer/sentencepiece_model.hpp"

#include <cstring>
#include <string_view>

#include "base/error.hpp"
#include "io/input_file.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace wmtp {
namespace {

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

SentencePiece piece_of(Message message) {
  SentencePiece piece;
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

}  // namespace

SentencePieceModel read_sentencepiece_model(const std::filesystem::path& file) {
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

}  // namespace wmtp
