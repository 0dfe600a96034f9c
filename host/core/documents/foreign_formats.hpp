// Detects data files in an unsupported format: archives, packed and columnar files by their first bytes, and JSON lines
// that contain no text. They would otherwise be trained on as raw bytes.
#pragma once

#include <filesystem>
#include <string>

namespace wmtp {

enum class FileContent { text, json_lines, tokens };

/// The first bytes, at most `bytes`. Error(data) if `file` is not a regular file or cannot be read.
std::string start_of(const std::filesystem::path& file, size_t bytes);

/// Error(data) with a conversion command if `file` is gzip, zstd, tar, Parquet, Arrow or numpy instead of `wanted` (token
/// ids may be numpy); also if it is not a regular file or cannot be read. Text and JSON lines may be packed with gzip or zstd, and are examined unpacked.
void refuse_foreign_format(const std::filesystem::path& file, FileContent wanted);

/// refuse_foreign_format for text, and Error(data) for JSON lines whose first object has no `text`.
void check_text_file(const std::filesystem::path& file);

}  // namespace wmtp
