// The subset of the protocol buffer wire format that event files need: a message is the concatenation of its fields.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace wmtp {

inline std::string little_endian(uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += char(value >> (8 * i));
  return bytes;
}

class ProtoMessage {
 public:
  ProtoMessage& integer(uint32_t field, int64_t value) {
    key(field, 0);
    varint(uint64_t(value));
    return *this;
  }
  ProtoMessage& fp64(uint32_t field, double value) {
    key(field, 1);
    bytes_ += little_endian(std::bit_cast<uint64_t>(value), 8);
    return *this;
  }
  ProtoMessage& fp32(uint32_t field, float value) {
    key(field, 5);
    bytes_ += little_endian(std::bit_cast<uint32_t>(value), 4);
    return *this;
  }
  /// Text, raw bytes, or an encoded message.
  ProtoMessage& bytes(uint32_t field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtoMessage& message(uint32_t field, const ProtoMessage& value) { return bytes(field, value.bytes_); }

  const std::string& encoded() const { return bytes_; }

 private:
  void key(uint32_t field, uint32_t wire_type) { varint(uint64_t{field} << 3 | wire_type); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += char(value | 0x80);
    bytes_ += char(value);
  }

  std::string bytes_;
};

}  // namespace wmtp
