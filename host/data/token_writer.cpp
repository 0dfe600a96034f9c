#include "data/token_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.hpp"
#include "data/utf8.hpp"

namespace wmtp {

namespace {

constexpr size_t piece_bytes = 1 << 20;
constexpr size_t buffer_bytes = 1 << 20;

/// Where to cut text that goes on: before its last newline, else before its last character.
size_t cut_of(std::string_view text) {
  const size_t newline = text.rfind('\n');
  if (newline != std::string_view::npos && newline > 0) return newline;
  size_t cut = text.size() - 1;
  while (cut > text.size() - 4 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;
  return cut;
}

}  // namespace

std::string id_dtype(int64_t vocab_size) { return vocab_size < 65536 ? "uint16" : "uint32"; }

void for_each_piece(const std::filesystem::path& file, const std::function<bool(std::string_view)>& take) {
  std::ifstream in(file, std::ios::binary);
  std::string text;
  while (in) {
    const size_t kept = text.size();
    text.resize(kept + piece_bytes);
    in.read(text.data() + kept, piece_bytes);
    text.resize(kept + static_cast<size_t>(in.gcount()));
    if (!in) break;
    const size_t cut = cut_of(text);
    if (!take(std::string_view(text).substr(0, cut))) return;
    text.erase(0, cut);
  }
  if (!in.eof() || in.bad())
    throw Error(ExitStatus::data, "cannot read " + file.string() + ": " + std::strerror(errno));
  if (!text.empty()) take(text);
}

int64_t first_non_utf8(const std::filesystem::path& file) {
  int64_t offset = 0;
  bool valid = true;
  for_each_piece(file, [&](std::string_view piece) {
    const size_t good = valid_utf8(piece);
    offset += static_cast<int64_t>(good);
    return valid = good == piece.size();
  });
  return valid ? -1 : offset;
}

TokenWriter::TokenWriter(const std::filesystem::path& file, const Tokenizer& tokenizer)
    : file_(file), tokenizer_(tokenizer), wide_(id_dtype(tokenizer.vocab_size()) == "uint32") {
  descriptor_ = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("create");
  buffer_.reserve(buffer_bytes + sizeof(int32_t));
}

TokenWriter::~TokenWriter() {
  if (descriptor_ >= 0) close(descriptor_);
}

void TokenWriter::add_document(const std::filesystem::path& document) {
  for_each_piece(document, [&](std::string_view piece) {
    for (int32_t id : tokenizer_.encode(piece)) add(id);
    return true;
  });
  add(static_cast<int32_t>(tokenizer_.end_of_text()));
}

void TokenWriter::finish() {
  flush();
  if (fsync(descriptor_) != 0) fail("sync");
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0) fail("close");
}

void TokenWriter::add(int32_t id) {
  for (int byte = 0; byte < (wide_ ? 4 : 2); ++byte) buffer_.push_back(static_cast<char>(id >> 8 * byte));
  ++num_ids_;
  if (buffer_.size() >= buffer_bytes) flush();
}

void TokenWriter::flush() {
  for (size_t done = 0; done < buffer_.size();) {
    const ssize_t wrote = write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail("write");
    done += static_cast<size_t>(wrote);
  }
  buffer_.clear();
}

void TokenWriter::fail(const char* what) const {
  throw Error(ExitStatus::storage, std::string("cannot ") + what + " " + file_.string() + ": " + std::strerror(errno) +
                                       "; free space, or name another folder with log.database");
}

}  // namespace wmtp
