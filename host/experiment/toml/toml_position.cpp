#include "experiment/toml/toml_position.hpp"

#include <algorithm>
#include <cstdint>

#include "base/text.hpp"
#include "base/utf8.hpp"

namespace wmtp {
namespace {

size_t offset_of(const std::string& text, const TomlPosition& position) {
  size_t at = 0;
  for (int line = 1; line < position.line && at < text.size(); ++at) line += text[at] == '\n';
  for (int column = 1; column < position.column && at < text.size(); ++column) {
    do ++at;
    while (at < text.size() && is_continuation(text[at]));
  }
  return at;
}

/// Walks the TOML of a string. A bare word, which --set accepts, has no quotes.
class StringWalker {
 public:
  StringWalker(const std::string& source, size_t at) : source_(source), at_(at) {
    const char first = at < source.size() ? source[at] : '\0';
    if (first != '"' && first != '\'') return;
    is_basic_ = first == '"';
    is_multiline_ = source.compare(at, 3, std::string(3, first)) == 0;
    at_ += is_multiline_ ? 3 : 1;
    if (is_multiline_) at_ += line_break();
  }
  size_t at() const { return at_; }
  /// Advances by one character or escape; returns the number of decoded bytes.
  size_t next() {
    if (is_basic_ && source_[at_] == '\\') return escape();
    const size_t line = line_break();
    at_ += line == 0 ? 1 : line;
    return 1;
  }

 private:
  size_t line_break() const {
    if (source_.compare(at_, 2, "\r\n") == 0) return 2;
    return source_.compare(at_, 1, "\n") == 0 ? 1 : 0;
  }
  size_t escape() {
    const char kind = at_ + 1 < source_.size() ? source_[at_ + 1] : '\0';
    if (is_multiline_ && (kind == '\n' || kind == '\r' || kind == ' ' || kind == '\t')) {
      at_ = std::min(source_.find_first_not_of(" \t\r\n", at_ + 1), source_.size());
      return 0;
    }
    const size_t digits = kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    const uint64_t point = digits == 0 ? 0 : std::stoul("0" + source_.substr(at_ + 2, digits), nullptr, 16);
    at_ += 2 + digits;
    return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  }

  const std::string& source_;
  size_t at_;
  bool is_basic_ = false, is_multiline_ = false;
};

}  // namespace

TomlPosition byte_position(int source, const std::string& text, size_t byte) {
  TomlPosition position{source, 1, 1};
  for (size_t at = 0; at < byte; ++at) {
    if (text[at] == '\n') {
      ++position.line;
      position.column = 1;
    } else if (!is_continuation(text[at])) {
      ++position.column;
    }
  }
  return position;
}

TomlPosition position_in_text(const std::string& source, TomlPosition value, size_t byte) {
  StringWalker text(source, offset_of(source, value));
  size_t start = text.at();
  for (size_t passed = 0; passed <= byte && text.at() < source.size();) {
    start = text.at();
    passed += text.next();
  }
  return byte_position(value.source, source, character_start(source, start));
}

}  // namespace wmtp
