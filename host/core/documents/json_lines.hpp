// Lines of a file that nobody vouches for, and the JSON object on each: what every reader of JSONL here needs before it
// knows what the fields mean. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace wmtp {

/// Calls take(number, line, bytes) for each line, numbered from 1, until it returns false. A line of more than
/// `longest` bytes comes empty and is never held whole. False when the file cannot be read; errno says why.
bool for_each_line(const std::filesystem::path& file, size_t longest,
                   const std::function<bool(int64_t number, std::string_view line, size_t bytes)>& take);

bool is_blank(std::string_view line);

/// Column, from 1 and in characters, of the byte at `offset`.
size_t column_of(std::string_view line, size_t offset);

constexpr int deepest_json = 32;

/// What nlohmann would take without a word, and parse_json_line refuses.
struct TooDeep {};
struct DoubledField {
  std::string name;
};

/// Of an object only those of its fields that `wants` names. Throws TooDeep above deepest_json levels (nlohmann goes as
/// deep as the stack), DoubledField for a wanted field that stands twice (it keeps the last), and nlohmann's own
/// errors.
nlohmann::json parse_json_line(std::string_view line, const std::function<bool(const std::string& field)>& wants);

}  // namespace wmtp
