// Tables as aligned text, JSON and CSV.
#pragma once

#include <ostream>
#include <string>

#include "log/log_reader.hpp"

namespace wmtp {

enum class TableFormat { text, json, csv };

/// text: right-aligned numbers, NULL as "-", long texts cut to the terminal's width, and a last line if the table is
/// capped. json: an array of objects, one per line; NaN and infinity are null. csv: RFC 4180.
void print_table(std::ostream& out, const Table& table, TableFormat format);

/// The text form, at most `columns` wide (0: unlimited).
void print_text_table(std::ostream& out, const Table& table, size_t columns);

OrderedJson row_object(const Table& table, size_t row);

/// A cell as text: 1.23457, 42, 1.5e-05; "-" for null.
std::string shown(const Json& cell);

}  // namespace wmtp
