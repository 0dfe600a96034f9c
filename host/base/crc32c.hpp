// CRC-32C (Castagnoli): the sum that stands beside every slice of a checkpoint and every kept signal. The processor's
// own instruction where it has one (SSE4.2), tables elsewhere; both give the same value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wmtp {

/// Continues with the value of the bytes before; crc32c("123456789") is 0xE3069283.
uint32_t crc32c(const void* bytes, size_t count, uint32_t previous = 0);

/// The portable path, so that a test can hold one against the other.
uint32_t crc32c_by_table(const void* bytes, size_t count, uint32_t previous = 0);

}  // namespace wmtp
