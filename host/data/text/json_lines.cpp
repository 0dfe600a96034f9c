#include "data/text/json_lines.hpp"

#include <algorithm>

#include "base/json_parse.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"

namespace wmtp {

namespace {

constexpr size_t piece_bytes = 1 << 20;
constexpr size_t max_quote_length = 40;

size_t column_of(std::string_view line, size_t offset) {
  const std::string_view before = line.substr(0, offset);
  return 1 + size_t(std::count_if(before.begin(), before.end(), [](char byte) { return !is_continuation(byte); }));
}

}  // namespace

LineStream::LineStream(const std::filesystem::path& file, size_t longest)
    : file_(file), longest_(longest), piece_(piece_bytes, '\0') {}

bool LineStream::next() {
  line_.clear();
  bytes_ = 0;
  for (bool ended = false; !ended;) {
    if (rest_.empty()) rest_ = {piece_.data(), file_.read(piece_.data(), piece_.size())};
    if (rest_.empty() && bytes_ == 0) return false;
    const size_t newline = rest_.find('\n'), part = std::min(newline, rest_.size());
    bytes_ += part;
    if (bytes_ <= longest_)
      line_.append(rest_.substr(0, part));
    else
      std::string().swap(line_);
    ended = rest_.empty() || newline != std::string_view::npos;
    rest_.remove_prefix(std::min(part + 1, rest_.size()));
  }
  ++number_;
  return true;
}

void for_each_line(const std::filesystem::path& file, size_t longest,
                   const std::function<bool(int64_t, std::string_view, size_t)>& on_line) {
  for (LineStream lines(file, longest); lines.next();)
    if (!on_line(lines.number(), lines.line(), lines.bytes())) return;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

std::variant<Json, LineMistake> parse_object(std::string_view line,
                                             const std::function<bool(const std::string&)>& wants) {
  if (const size_t valid = valid_utf8_prefix(line); valid < line.size())
    return LineMistake{column_of(line, valid), "", printed("found byte 0x%02x, wanted UTF-8", uint8_t(line[valid]))};
  JsonRules rules;
  rules.too_deep = [&] { throw LineMistake{{}, "", "nested more than " + std::to_string(rules.max_depth) + " deep"}; };
  rules.wants = [&](size_t depth, const std::string& name) { return depth > 0 || wants(name); };
  rules.repeated_key = [](size_t, const std::string& name) {
    throw LineMistake{{}, name, "found twice in an object, wanted once"};
  };
  try {
    Json object = parse_json<Json>(line, rules);
    if (object.is_object()) return object;
    return LineMistake{{}, "", "found " + found_text(object) + ", wanted an object"};
  } catch (const LineMistake& mistake) {
    return mistake;
  } catch (const Json::parse_error& failure) {
    const bool truncated = failure.byte > line.size();
    return LineMistake{column_of(line, failure.byte == 0 ? 0 : failure.byte - 1), "",
                       truncated ? "the line ends in the middle of its object, wanted a complete one (`jq -c .` writes "
                                   "an object of several lines on one)"
                                 : "found invalid JSON from here on, wanted one object per line"};
  } catch (const Json::exception&) {
    return LineMistake{{}, "", "found a number that is out of range"};
  }
}

OrderedJson ordered_object(std::string_view line) {
  JsonRules rules;
  rules.inexact = [] { throw LineMistake{{}, "", "found an integer of more than 64 bits, wanted a string"}; };
  return parse_json<OrderedJson>(line, rules);
}

std::string found_text(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number()) return "the number " + value.dump();
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  const auto& text = value.get_ref<const std::string&>();
  const std::string shown = text.substr(0, valid_utf8_prefix(std::string_view(text).substr(0, max_quote_length)));
  return "the string " + Json(shown + (shown.size() < text.size() ? "..." : "")).dump();
}

}  // namespace wmtp
