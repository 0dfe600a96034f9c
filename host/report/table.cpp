#include "report/table.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "report/terminal.hpp"

namespace wmtp {
namespace {

constexpr size_t column_gap = 2;
constexpr size_t narrowest = 8;                     // text columns are not cut below this width
constexpr size_t most_printed = size_t{256} << 20;  // a single long cell widens its column in every row

bool holds_numbers(const Table& table, size_t column) {
  bool number = false;
  for (const auto& row : table.rows) {
    if (row[column].is_null()) continue;
    if (!row[column].is_number()) return false;
    number = true;
  }
  return number;
}

/// Narrows text columns, widest first, until the table fits.
void narrow(std::vector<size_t>& widths, const std::vector<bool>& numeric, size_t columns) {
  for (size_t i = 0; i < widths.size(); ++i)
    if (!numeric[i]) widths[i] = std::min(widths[i], std::max(columns, narrowest));
  const auto total = [&] {
    size_t sum = widths.empty() ? 0 : column_gap * (widths.size() - 1);
    for (size_t width : widths) sum += width;
    return sum;
  };
  while (total() > columns) {
    size_t widest = widths.size();
    for (size_t i = 0; i < widths.size(); ++i)
      if (!numeric[i] && widths[i] > narrowest && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
    if (widest == widths.size()) return;
    --widths[widest];
  }
}

void refuse_if_huge(const std::vector<size_t>& widths, size_t rows) {
  size_t line = 0;
  for (const size_t width : widths) line += width + column_gap;
  if (line <= most_printed / (rows + 1)) return;
  throw Error(ExitStatus::usage, "the table would be larger than " + human_bytes(int64_t(most_printed)) +
                                     ", with lines of " + with_thousands(int64_t(line)) +
                                     " characters; request fewer rows, or JSON or CSV");
}

void print_row(std::ostream& out, const std::vector<std::string>& cells, const std::vector<size_t>& widths,
               const std::vector<bool>& numeric) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string cell = truncate_text(cells[i], widths[i]);
    const size_t pad = widths[i] - shown_length(cell);
    if (i > 0) line.append(column_gap, ' ');
    if (numeric[i]) line.append(pad, ' ');
    line += cell;
    if (!numeric[i]) line.append(pad, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out << line << '\n';
}

void print_json(std::ostream& out, const Table& table) {
  out << '[';
  for (size_t row = 0; row < table.rows.size(); ++row) out << (row ? ",\n " : "\n ") << dumped(row_object(table, row));
  out << (table.rows.empty() ? "]\n" : "\n]\n");
}

std::string csv_cell(const Json& cell) {
  if (cell.is_null()) return "";
  if (cell.is_number_float()) return shortest_digits(cell.get<double>());
  return csv_field(cell.is_string() ? cell.get<std::string>() : cell.dump());
}

void print_csv(std::ostream& out, const Table& table) {
  const auto line = [&out](const auto& cells) {
    for (size_t i = 0; i < cells.size(); ++i) out << (i ? "," : "") << csv_cell(cells[i]);
    out << "\r\n";
  };
  line(table.columns);
  for (const auto& row : table.rows) line(row);
}

}  // namespace

OrderedJson row_object(const Table& table, size_t row) {
  OrderedJson object = OrderedJson::object();
  for (size_t column = 0; column < table.columns.size(); ++column)
    object[table.columns[column]] = table.rows.at(row)[column];
  return object;
}

std::string shown(const Json& cell) {
  if (cell.is_null()) return "-";
  if (cell.is_string()) return one_line(cell.get<std::string>());
  if (!cell.is_number_float()) return cell.dump();
  return printed("%.6g", cell.get<double>());
}

void print_text_table(std::ostream& out, const Table& table, size_t columns) {
  std::vector<size_t> widths;
  std::vector<bool> numeric;
  std::vector<std::string> heads;
  std::vector<std::vector<std::string>> cells(table.rows.size());
  for (size_t column = 0; column < table.columns.size(); ++column) {
    heads.push_back(one_line(table.columns[column]));
    numeric.push_back(holds_numbers(table, column));
    widths.push_back(shown_length(heads.back()));
    for (size_t row = 0; row < table.rows.size(); ++row) {
      cells[row].push_back(shown(table.rows[row][column]));
      widths[column] = std::max(widths[column], shown_length(cells[row].back()));
    }
  }
  if (columns > 0) narrow(widths, numeric, columns);
  refuse_if_huge(widths, table.rows.size());
  print_row(out, heads, widths, numeric);
  for (const auto& row : cells) print_row(out, row, widths, numeric);
  if (table.capped) out << "… more rows than the " << table.rows.size() << " shown\n";
}

void print_table(std::ostream& out, const Table& table, TableFormat format) {
  switch (format) {
    case TableFormat::text:
      return print_text_table(out, table, terminal_columns(out));
    case TableFormat::json:
      return print_json(out, table);
    case TableFormat::csv:
      return print_csv(out, table);
  }
}

}  // namespace wmtp
