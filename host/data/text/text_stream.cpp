#include "data/text/text_stream.hpp"

#include <utility>

#include "base/text.hpp"
#include "data/text/jsonl_reader.hpp"
#include "io/file_kind.hpp"

namespace wmtp {
namespace {

/// The field `text`, moved out of the line's object.
std::string object_text(const std::filesystem::path& file, const LineStream& lines) {
  JsonlMistakes mistakes(file);
  std::string text;
  if (lines.bytes() > max_jsonl_line_bytes) {
    mistakes.add_long_line(lines.number(), lines.bytes());
  } else {
    auto parsed = parse_object(lines.line(), [](const std::string& field) { return field == "text"; });
    Json* const object = std::get_if<Json>(&parsed);
    const auto found = object ? object->find("text") : Json::iterator();
    if (!object)
      mistakes.add(lines.number(), std::get<LineMistake>(parsed));
    else if (found == object->end() || !found->is_string())
      mistakes.add(lines.number(), "text", found == object->end() ? nullptr : &*found, "a string");
    else
      text = std::move(found->get_ref<std::string&>());
  }
  mistakes.raise();
  return text;
}

}  // namespace

TextStream::TextStream(const std::filesystem::path& file, bool as_bytes) : file_(file) {
  if (!as_bytes && has_json_lines(file))
    lines_.emplace(file, max_jsonl_line_bytes);
  else
    bytes_.emplace(file, as_bytes);
}

bool TextStream::next_text() {
  if (bytes_) return !std::exchange(has_begun_, true);
  offset_ += int64_t(line_text_.size() - next_);
  line_text_.clear();
  next_ = 0;
  do {
    if (!lines_->next()) return false;
  } while (lines_->bytes() <= max_jsonl_line_bytes && is_blank(lines_->line()));
  line_text_ = object_text(file_, *lines_);
  return true;
}

size_t TextStream::read(char* out, size_t count) {
  const size_t got = bytes_ ? bytes_->read(out, count) : line_text_.copy(out, count, next_);
  next_ += got;
  offset_ += int64_t(got);
  return got;
}

void TextStream::skip_to(int64_t offset) {
  if (bytes_) {
    offset_ += bytes_->skip(offset - offset_);
    return;
  }
  while (offset - offset_ >= int64_t(line_text_.size() - next_))
    if (!next_text()) return;
  next_ += size_t(offset - offset_);
  offset_ = offset;
}

}  // namespace wmtp
