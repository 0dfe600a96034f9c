// Statistics of a data file (token ids, records or text), computed with little memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace wmtp {

/// One statistic: a name in snake case, and a number or a text.
using Statistic = std::pair<std::string, std::variant<int64_t, double, std::string>>;

/// Token ids; `dtype` as in token_id_layout (data/tokens/token_id_layout.hpp): type, count, smallest and largest id,
/// number of distinct ids, and the most frequent id with its share. Throws the errors of token_id_layout.
std::vector<Statistic> inspect_tokens(const std::filesystem::path& file, const std::string& dtype);

/// Records (record_file.hpp): count, right and wrong ones, problems, pairs of a right and a wrong answer to the same
/// problem, the longest; where there are weights, how many and their range. Error(data) lists the file's mistakes, but
/// those of weights, which not every pipeline reads, are a statistic.
std::vector<Statistic> inspect_records(const std::filesystem::path& file);

/// Text (data/text/text_stream.hpp): bytes, lines of the unpacked file, the longest line, and whether it is UTF-8
/// or where it is invalid; documents of JSON lines, and the size of the text if it is not that of the file. Error(data)
/// if the file cannot be trained on as text.
std::vector<Statistic> inspect_text(const std::filesystem::path& file);

}  // namespace wmtp
