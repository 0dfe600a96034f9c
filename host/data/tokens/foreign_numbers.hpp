// What a file without a header contains, if it is no array of little-endian token ids: floating-point numbers,
// big-endian ids, or ids of one byte. Read as ids, they would be trained on without a message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace wmtp {

inline constexpr size_t bytes_for_numbers = 1 << 16;  ///< of a file's beginning

/// Why `bytes`, the beginning of a file, cannot be ids of `type` (uint16, uint32), and what to do: "begins like numbers
/// of float32: ...". "" if they can be. Only what no ids are: whole numbers as floats write them, and ids that are
/// below `vocab_size` (0: unknown) only if the bytes of each are swapped.
std::string certain_foreign_numbers(std::string_view bytes, const std::string& type, int64_t vocab_size);

/// The same, judged by the frequencies of bytes, for a file whose type nobody stated; it can be stated in data.dtype.
std::string likely_foreign_numbers(std::string_view bytes);

}  // namespace wmtp
