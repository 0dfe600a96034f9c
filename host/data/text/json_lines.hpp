// Reads the lines of an untrusted file, packed or not (io/decompressed_file.hpp), and the JSON object on each, for all
// readers of JSONL.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/json.hpp"
#include "io/decompressed_file.hpp"

namespace wmtp {

/// The tests of a programming problem, or the text of a book, can take tens of megabytes.
constexpr size_t max_jsonl_line_bytes = size_t{256} << 20;

/// Reads one line after the other, without a byte order mark at the beginning. A line longer than `longest` bytes
/// appears as empty and is never held in memory. Throws the errors of DecompressedFile.
class LineStream {
 public:
  LineStream(const std::filesystem::path& file, size_t longest);
  /// False after the last line.
  bool next();
  int64_t number() const { return number_; }  ///< from 1
  std::string_view line() const { return line_; }
  size_t bytes() const { return bytes_; }

 private:
  DecompressedFile file_;
  size_t longest_, bytes_ = 0;
  std::string piece_, line_;
  std::string_view rest_;  ///< the part of piece_ that follows the line
  int64_t number_ = 0;
};

/// Calls on_line(number, line, bytes) for each line until it returns false.
void for_each_line(const std::filesystem::path& file, size_t longest,
                   const std::function<bool(int64_t number, std::string_view line, size_t bytes)>& on_line);

bool is_blank(std::string_view line);

/// A mistake at a column (in characters, from 1), in a field, or in the whole line.
struct LineMistake {
  std::optional<size_t> column;
  std::string field, message;
};

/// The line's object with the fields that `wants` accepts, or its mistake: not UTF-8, not JSON, not an object, nested
/// deeper than 32 levels (nlohmann would overflow the stack), a number out of range, or two values of one name in
/// the accepted fields (nlohmann would silently keep the last).
std::variant<Json, LineMistake> parse_object(std::string_view line,
                                             const std::function<bool(const std::string& field)>& wants);

/// The object of a line that parse_object accepts, with its keys in their order, for what templates write. Throws a
/// LineMistake for an integer of more than 64 bits, which would be rounded.
OrderedJson ordered_object(std::string_view line);

/// A field of users' JSON: nullptr if `json` is no object, or the field is missing or null, which counts as missing.
template <class AnyJson>
const AnyJson* find_field(const AnyJson& json, const std::string& name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

/// Describes a value in a message: `the number 3`, `the string "abc"`, `a list`.
std::string found_text(const Json& value);

}  // namespace wmtp
