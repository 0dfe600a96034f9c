// Tables for people (aligned text), and for programs (JSON, CSV). Primary output: stdout.
#pragma once

#include <ostream>
#include <string>

#include "core/runlog/log_reader.hpp"

namespace wmtp {

enum class TableFormat { text, json, csv };

/// text: columns of numbers flush right, NULL as "-", long texts cut to the width of a terminal, and a last line when
/// the table is capped. json: an array of objects, one to a line; what is no finite number is null. csv: RFC 4180.
void print_table(std::ostream& out, const Table& table, TableFormat format);

/// The text form, `columns` wide at most (0: as wide as it gets).
void print_text_table(std::ostream& out, const Table& table, size_t columns);

/// A number as people read it: 1.23457, 42, 1.5e-05; "-" for null.
std::string shown(const nlohmann::json& cell);

}  // namespace wmtp
