// Parser of a safetensors header, separate from the file reader so that it can be fuzzed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors/safetensors.hpp"

namespace wmtp {

constexpr int64_t max_safetensors_header = 16 << 20;

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;  ///< sorted by position in the file
  std::map<std::string, std::string> metadata;
};

/// `json`: the N bytes after the length field of a file of `file_size` bytes. Error(data) messages start with `where`.
SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t file_size, const std::string& where);

}  // namespace wmtp
