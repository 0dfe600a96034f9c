// CRC-32C (Castagnoli), the checksum of checkpoint slices and cached signals. Uses the processor's instruction (SSE4.2)
// if available, otherwise tables, with the same result.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wmtp {

/// `previous` is the checksum of the preceding bytes; crc32c("123456789") is 0xE3069283.
uint32_t crc32c(const void* bytes, size_t count, uint32_t previous = 0);

/// The portable implementation, for tests that compare both.
uint32_t crc32c_by_table(const void* bytes, size_t count, uint32_t previous = 0);

}  // namespace wmtp
