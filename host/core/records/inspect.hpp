// What a data file holds, read once from end to end in little memory: token ids, records, or text. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace wmtp {

/// One line of what is told: a name in snake case, and a number or a text.
using Finding = std::pair<std::string, std::variant<int64_t, double, std::string>>;

/// Raw little-endian ids, `dtype` "uint16" or "uint32": how many, the smallest and largest, how many different ones and
/// how often the most frequent stands. Error(data) when the file cannot be read, or holds no whole number of ids.
std::vector<Finding> inspect_tokens(const std::filesystem::path& file, const std::string& dtype);

/// Records (record_file.hpp): how many, right and wrong ones, problems, pairs of a right and a wrong answer to the same
/// problem, the longest. Error(data) lists its mistakes.
std::vector<Finding> inspect_records(const std::filesystem::path& file);

/// Any other file: bytes, lines, the longest one, and whether it is UTF-8, or where it is not.
std::vector<Finding> inspect_text(const std::filesystem::path& file);

}  // namespace wmtp
