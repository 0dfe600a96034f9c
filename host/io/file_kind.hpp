// What a file is, decided in one place for all readers: by its first bytes, packed or not, else by its name where that
// says so. Nothing becomes text, or token ids, because it looked like nothing else: it would be trained on without a
// message.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/enum_names.hpp"

namespace wmtp {

/// What a file is wanted for. `table`: for `data convert`.
enum class FileUse { text, json_lines, tokens, table, tokenizer };
template <>
inline constexpr auto names_of<FileUse> =
    std::array{"text", "JSON lines", "raw token ids", "Parquet, Arrow, CSV or a JSON list", "a tokenizer"};
static_assert(names_of<FileUse>.size() == size_t(FileUse::tokenizer) + 1);

/// The first bytes, at most `bytes`. Error(data) if `file` is not a regular file or cannot be read.
std::string read_file_start(const std::filesystem::path& file, size_t bytes);

/// Error(data) "FILE: found a zip archive, wanted text; unpack it first: unzip FILE", by the beginning of the file, if
/// it is nothing that can be used so; also if it is not a regular file or cannot be read. Text and JSON lines may be
/// packed with gzip or zstd, and are examined unpacked.
void check_file_kind(const std::filesystem::path& file, FileUse use);

/// What to add to the refusal of a file named .bin as text: "; if it contains token ids, set [data] kind = ...". "" for
/// other names.
std::string advice_for_token_ids(const std::filesystem::path& file);

/// The same error if `piece`, a later part of the text in `file`, is in an encoding that writes all characters with
/// ASCII (io/seven_bit_text.hpp): headers of a mail may come first.
void refuse_seven_bit(const std::filesystem::path& file, std::string_view piece);

/// Whether a file of text is JSON lines: by its name (.jsonl, .ndjson, .json, also packed), or if its first line that
/// is neither blank nor a comment begins with an object's first key. A mistake in a line does not make it another kind.
/// Throws the errors of DecompressedFile.
bool has_json_lines(const std::filesystem::path& file);

/// Error(data) if `start`, the beginning of `file` or of what is packed in it, is a pointer that Git LFS, git-annex or
/// Xet left in place of the file.
void refuse_pointer(const std::filesystem::path& file, std::string_view start);

}  // namespace wmtp
