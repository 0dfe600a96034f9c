// Tables for people (aligned text), and for programs (JSON, CSV). Primary output: stdout.
#pragma once

#include <ostream>
#include <string>

#include "log/log_reader.hpp"

namespace wmtp {

enum class TableFormat { text, json, csv };
void print_table(std::ostream& out, const Table& table, TableFormat format);

}  // namespace wmtp
