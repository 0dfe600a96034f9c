// What a file without a header contains, if it is no array of little-endian token ids: floating-point numbers,
// big-endian ids, ids of one byte, numbers that may be negative, such as sound, or random bytes. Read as ids, they
// would be trained on without a message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace wmtp {

inline constexpr size_t bytes_for_numbers = 1 << 16;  ///< of a file's beginning

// Each says why `bytes`, the beginning of a file, cannot be ids, and what to do: "begins like numbers of float32: ...".
// "" if they can be.

/// Whole numbers as floats write them, which no ids are.
std::string whole_floats(std::string_view bytes);

/// Ids of `type` (uint16, uint32) that are below `vocab_size` only if the bytes of each are swapped. `vocab_size`: 0 if
/// it is not known.
std::string swapped_ids(std::string_view bytes, const std::string& type, int64_t vocab_size);

/// What the frequencies of bytes show, for a file whose type nobody stated; it can be stated in data.dtype. Of random
/// bytes, one file of 16 KiB in 10^9 is taken for ids; ids are not taken for random bytes if one of them is as frequent
/// as 1 in 64, or the vocabulary is below 60,000.
std::string likely_foreign_numbers(std::string_view bytes);

}  // namespace wmtp
