// Converts between strings and the bytes of c10d's stores.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wmtp {

inline std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
inline std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace wmtp
