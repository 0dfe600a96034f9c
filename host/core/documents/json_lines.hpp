// Reads the lines of an untrusted file and the JSON object on each, for all readers of JSONL.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace wmtp {

/// Calls take(number, line, bytes) for each line, numbered from 1, until it returns false. A line longer than `longest`
/// bytes is passed as empty and never held in memory. Error(data) if the file cannot be read.
void for_each_line(const std::filesystem::path& file, size_t longest,
                   const std::function<bool(int64_t number, std::string_view line, size_t bytes)>& take);

bool is_blank(std::string_view line);

/// A mistake at a column (in characters, from 1), in a field, or in the whole line.
struct LineMistake {
  std::optional<size_t> column;
  std::string field, message;
};

/// The line's object with the fields that `wants` accepts, or its mistake: not UTF-8, not JSON, not an object, nested
/// deeper than 32 levels (nlohmann would overflow the stack), a number out of range, or an accepted field that occurs
/// twice (nlohmann would silently keep the last).
std::variant<nlohmann::json, LineMistake> parse_object(std::string_view line,
                                                       const std::function<bool(const std::string& field)>& wants);

/// Describes a value in a message: `the number 3`, `the string "abc"`, `a list`.
std::string found_text(const nlohmann::json& value);

}  // namespace wmtp
