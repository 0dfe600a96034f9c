#include "data/torch/token_writer.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/utf8.hpp"

namespace wmtp {

namespace {

constexpr size_t piece_bytes = 1 << 20;

}  // namespace

std::string id_dtype(int64_t vocab_size) { return vocab_size < 65536 ? "uint16" : "uint32"; }

void for_each_piece(const std::filesystem::path& file, const std::function<bool(std::string_view)>& on_piece,
                    bool as_bytes) {
  TextStream in(file, as_bytes);
  while (in.next_text()) {
    std::string text;
    for (bool ended = false; !ended;) {
      const size_t kept = text.size();
      text.resize(kept + piece_bytes);
      const size_t got = in.read(text.data() + kept, piece_bytes);
      text.resize(kept + got);
      ended = got < piece_bytes;
      const size_t cut = ended ? text.size() : split_point(text);
      if (cut > 0 && !on_piece(std::string_view(text).substr(0, cut))) return;
      text.erase(0, cut);
    }
  }
}

int64_t first_non_utf8(const std::filesystem::path& file, bool as_bytes) {
  int64_t offset = 0;
  bool valid = true;
  for_each_piece(
      file,
      [&](std::string_view piece) {
        const size_t good = valid_utf8_prefix(piece);
        offset += int64_t(good);
        return valid = good == piece.size();
      },
      as_bytes);
  return valid ? -1 : offset;
}

TokenWriter::TokenWriter(const std::filesystem::path& file, const Tokenizer& tokenizer)
    : file_(file), tokenizer_(tokenizer), wide_(id_dtype(tokenizer.vocab_size()) == "uint32") {}

void TokenWriter::add_documents(const TextPart& part, WorkProgress* progress) {
  TextStream in(part.file, part.as_bytes);
  for (const TextRange& document : part.documents) {
    in.skip_to(document.begin);
    add_document(in, document.end - document.begin, progress);
    if (in.offset() != document.end)
      throw Error(ExitStatus::data, part.file.string() + " was truncated while it was read");
  }
}

void TokenWriter::add_document(TextStream& in, int64_t left, WorkProgress* progress) {
  const bool repairs = tokenizer_.reads() == Tokenizer::Reads::repaired;
  std::string bytes, text;  // bytes read but not decoded; text not yet encoded
  int32_t last = -1;        // of the ids that the text has so far
  for (bool more = true; more;) {
    const size_t kept = bytes.size();
    const auto wanted = std::min(left, int64_t(std::max(piece_bytes, text.size())));
    bytes.resize(kept + size_t(wanted));
    const size_t got = in.read(bytes.data() + kept, size_t(wanted));
    bytes.resize(kept + got);
    if (progress) progress->advance(int64_t(got));
    left = got == 0 ? 0 : left - int64_t(got);
    more = left > 0;
    const size_t usable = repairs && more ? complete_utf8_length(bytes) : bytes.size();
    text += repairs ? repaired_utf8(std::string_view(bytes).substr(0, usable)) : bytes;
    bytes.erase(0, usable);
    std::vector<int32_t> ids;
    text.erase(0, tokenizer_.encode_begin(text, more, ids, last));
    if (last < 0 && (!more || !ids.empty())) add(tokenizer_.missing_prefix_ids(ids));
    add(ids);
    if (!ids.empty()) last = ids.back();
  }
  const auto end_of_text = int32_t(tokenizer_.end_of_text());
  if (last != end_of_text) add({end_of_text});
  ++num_documents_;
}

void TokenWriter::add(const std::vector<int32_t>& ids) {
  const int64_t vocab_size = tokenizer_.vocab_size();
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size)
      throw Error(ExitStatus::data, "the tokenizer returned id " + std::to_string(id) + ", but has only " +
                                        std::to_string(vocab_size) + " ids; its file is damaged");
    const char bytes[] = {char(id), char(id >> 8), char(id >> 16), char(id >> 24)};
    file_.write({bytes, wide_ ? size_t{4} : size_t{2}});
  }
  num_ids_ += int64_t(ids.size());
  num_ends_ += std::ranges::count(ids, int32_t(tokenizer_.end_of_text()));
}

}  // namespace wmtp
