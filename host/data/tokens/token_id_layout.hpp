// Where the ids of a token file are, and their type: of raw ids, or of the files that other programs write.
//
// | file                  | recognised by                             | types                        |
// | ---                   | ---                                       | ---                          |
// | raw ids (nanoGPT)     | no header                                 | data.dtype: uint16, uint32   |
// | llm.c                 | 1,024 bytes with a magic number           | uint16, uint32               |
// | NumPy, one dimension  | its first bytes                           | uint16, uint32, int32, int64 |
// | Megatron NAME.bin     | NAME.idx beside it, by its first bytes    | uint16, int32, int64         |
//
// All of them are little-endian. Megatron's sequences are read one after the other, as they are stored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace wmtp {

struct TokenIdLayout {
  std::string type = "uint16";
  int64_t offset = 0;  ///< of the first id, in bytes
  int64_t count = 0;

  int64_t id_bytes() const { return type == "uint16" ? 2 : type == "int64" ? 8 : 4; }
  bool is_signed() const { return type[0] == 'i'; }
};

/// All of a file, with no header. Throws the errors of InputFile.
TokenIdLayout raw_ids(const std::filesystem::path& file, const std::string& type);

/// `dtype`: data.dtype, "" if the experiment does not set it; `vocab_size`: 0 if it is not known. Error(data) if the
/// file is no regular file of token ids (io/file_kind.hpp), is empty, contradicts its header, has ids of another type,
/// or has a header for another `dtype`; if it has no header, and its bytes show that they are no such ids
/// (data/tokens/foreign_numbers.hpp); and if it has no header and no `dtype`, for a vocabulary above uint16's, or if
/// its bytes show that they are wider.
TokenIdLayout token_id_layout(const std::filesystem::path& file, const std::string& dtype, int64_t vocab_size = 0);

/// The index that Megatron writes beside a file of ids, by its name; whether it exists and is one.
std::filesystem::path megatron_index(const std::filesystem::path& file);
bool has_megatron_index(const std::filesystem::path& file);

}  // namespace wmtp
