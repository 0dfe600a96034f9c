// Lines of an untrusted file and the JSON object on each, for every reader of JSONL.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace wmtp {

/// Calls take(number, line, bytes) for each line, numbered from 1, until it returns false. A line of more than `longest`
/// bytes is passed as empty and never held in memory. False when the file cannot be read, with the cause in errno.
bool for_each_line(const std::filesystem::path& file, size_t longest,
                   const std::function<bool(int64_t number, std::string_view line, size_t bytes)>& take);

bool is_blank(std::string_view line);

/// Column of the byte at `offset`, in characters from 1.
size_t column_of(std::string_view line, size_t offset);

constexpr int deepest_json = 32;

/// JSON that nlohmann accepts silently and parse_json_line refuses.
struct TooDeep {};
struct DoubledField {
  std::string name;
};

/// The object's fields for which `wants` is true. Throws TooDeep above deepest_json levels (nlohmann would recurse until
/// the stack ends), DoubledField for a wanted field that occurs twice (nlohmann keeps the last), and nlohmann's errors.
nlohmann::json parse_json_line(std::string_view line, const std::function<bool(const std::string& field)>& wants);

}  // namespace wmtp
