// Files that hold something else than an experiment says: packed or columnar formats, known by their first bytes, and
// JSON lines given as text. Without this they would be trained on as bytes. Knows no LibTorch.
#pragma once

#include <filesystem>

namespace wmtp {

enum class FileContent { text, json_lines, tokens };

/// Error(data) when `file` is gzip, zstd, Parquet, Arrow or numpy, where `wanted` was to be read; the message has the
/// command that helps. Also when it is no regular file, or cannot be read.
void refuse_foreign_format(const std::filesystem::path& file, FileContent wanted);

/// refuse_foreign_format for a text, and Error(data) when the first ten lines that are not blank (all, where there are
/// fewer) are JSON objects.
void check_text_file(const std::filesystem::path& file);

}  // namespace wmtp
