// The header of a safetensors file, checked; apart from the file so that it can be fuzzed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/safetensors/safetensors.hpp"

namespace wmtp {

constexpr int64_t max_safetensors_header = 16 << 20;

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;  ///< in the order of the file
  std::map<std::string, std::string> metadata;
};

/// `json` are the N bytes after the length, of a file of `file_size` bytes. Error(data) begins with `where`.
SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t file_size, const std::string& where);

}  // namespace wmtp
