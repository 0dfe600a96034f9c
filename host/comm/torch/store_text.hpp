// Converts between strings and the bytes of c10d's stores.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wmtp {

inline std::string bytes_to_text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
inline std::vector<uint8_t> text_to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace wmtp
