// Values are reflected: bit 31 is the coefficient of x^0. A crc32 instruction processes 8 bytes with a latency of three
// cycles, so three adjacent lanes are summed concurrently and combined: appending n zero bytes multiplies the register
// by x^(8n) modulo the polynomial, which takes four table look-ups for a fixed n.
#include "base/crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace wmtp {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t polynomial = 0x82f63b78;

constexpr std::array<std::array<uint32_t, 256>, 8> make_tables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) ? (value >> 1) ^ polynomial : value >> 1;
    tables[0][byte] = value;
  }
  for (size_t step = 1; step < 8; ++step) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[step - 1][byte];
      tables[step][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr auto tables = make_tables();

uint64_t load_8(const uint8_t* bytes) {
  uint64_t value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

uint32_t add_by_table(uint32_t state, const uint8_t* bytes, size_t count) {
  for (; count >= 8; bytes += 8, count -= 8) {
    const uint64_t word = load_8(bytes) ^ state;
    state = 0;
    for (size_t i = 0; i < 8; ++i) state ^= tables[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (; count > 0; ++bytes, --count) state = (state >> 8) ^ tables[0][(state ^ *bytes) & 0xff];
  return state;
}

#if defined(__x86_64__)

constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b & 1) ? (b >> 1) ^ polynomial : b >> 1;
  }
  return product;
}

constexpr uint32_t power_of_x(uint64_t exponent) {
  uint32_t result = 0x80000000u;
  for (uint32_t square = 0x40000000u; exponent != 0; exponent >>= 1, square = multiply(square, square))
    if (exponent & 1) result = multiply(result, square);
  return result;
}

using ShiftTable = std::array<std::array<uint32_t, 256>, 4>;

constexpr ShiftTable make_shift(size_t bytes) {
  const uint32_t factor = power_of_x(8 * bytes);
  ShiftTable table{};
  for (uint32_t place = 0; place < 4; ++place) {
    for (uint32_t byte = 0; byte < 256; ++byte) table[place][byte] = multiply(factor, byte << (8 * place));
  }
  return table;
}

template <size_t lane>
constexpr ShiftTable shift_table = make_shift(lane);

template <size_t lane>
uint32_t shift(uint32_t state) {
  const ShiftTable& table = shift_table<lane>;
  return table[0][state & 0xff] ^ table[1][(state >> 8) & 0xff] ^ table[2][(state >> 16) & 0xff] ^
         table[3][state >> 24];
}

template <size_t lane>
__attribute__((target("sse4.2"))) uint32_t add_lanes(uint32_t state, const uint8_t*& bytes, size_t& count) {
  for (; count >= 3 * lane; bytes += 3 * lane, count -= 3 * lane) {
    uint64_t first = state, second = 0, third = 0;
    for (size_t i = 0; i < lane; i += 8) {
      first = _mm_crc32_u64(first, load_8(bytes + i));
      second = _mm_crc32_u64(second, load_8(bytes + lane + i));
      third = _mm_crc32_u64(third, load_8(bytes + 2 * lane + i));
    }
    const uint32_t joined = shift<lane>(uint32_t(first)) ^ uint32_t(second);
    state = shift<lane>(joined) ^ uint32_t(third);
  }
  return state;
}

__attribute__((target("sse4.2"))) uint32_t add_by_instruction(uint32_t state, const uint8_t* bytes, size_t count) {
  state = add_lanes<4096>(state, bytes, count);
  state = add_lanes<256>(state, bytes, count);
  uint64_t wide = state;
  for (; count >= 8; bytes += 8, count -= 8) wide = _mm_crc32_u64(wide, load_8(bytes));
  state = uint32_t(wide);
  for (; count > 0; ++bytes, --count) state = _mm_crc32_u8(state, *bytes);
  return state;
}

#endif

}  // namespace

uint32_t crc32c_by_table(const void* bytes, size_t count, uint32_t previous) {
  return ~add_by_table(~previous, static_cast<const uint8_t*>(bytes), count);
}

uint32_t crc32c(const void* bytes, size_t count, uint32_t previous) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ~add_by_instruction(~previous, static_cast<const uint8_t*>(bytes), count);
#endif
  return crc32c_by_table(bytes, count, previous);
}

}  // namespace wmtp
