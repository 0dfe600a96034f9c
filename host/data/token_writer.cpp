#include "data/token_writer.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.hpp"
#include "data/utf8.hpp"

namespace wmtp {

namespace {

constexpr size_t piece_bytes = 1 << 20;

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
    : file_(file), tokenizer_(tokenizer), wide_(id_dtype(tokenizer.vocab_size()) == "uint32") {}

void TokenWriter::add_document(const std::filesystem::path& document) {
  for_each_piece(document, [&](std::string_view piece) {
    add(tokenizer_.encode(piece));
    return true;
  });
  add({static_cast<int32_t>(tokenizer_.end_of_text())});
}

void TokenWriter::add(const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) {
    const char bytes[] = {static_cast<char>(id), static_cast<char>(id >> 8), static_cast<char>(id >> 16),
                          static_cast<char>(id >> 24)};
    file_.add({bytes, wide_ ? size_t{4} : size_t{2}});
  }
  num_ids_ += static_cast<int64_t>(ids.size());
}

}  // namespace wmtp
