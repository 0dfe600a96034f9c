// Converts tables (Parquet, Arrow, CSV, folders of datasets, JSON lists) to JSON lines: a Python process reads them,
// with pyarrow if it is needed (programs/tables.py).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

struct TableConversion {
  std::vector<std::filesystem::path> inputs;  ///< files or folders; their rows follow one another
  std::vector<std::string> columns;           ///< all if empty
  std::string split;                          ///< of folders with several splits
  std::filesystem::path jsonl;                ///< replaced if it exists
};

/// Error(data) if an input is missing, damaged or no table, has no such column or split, or a value that JSON lacks;
/// Error(usage) if there is no Python, or none with pyarrow for what needs it; Error(storage). Warns of gaps in the
/// numbers of files.
void convert_tables(const TableConversion& conversion);

}  // namespace wmtp
