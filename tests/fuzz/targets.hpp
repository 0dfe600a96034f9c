// The parsers of untrusted files, each as a function of bytes. A target returns if the bytes were read or refused with
// Error(data); any other exception is a bug.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace wmtp::fuzz {

struct Target {
  const char* name;
  void (*run)(const uint8_t* bytes, size_t count);
  std::vector<std::string> seeds;
};

const std::vector<Target>& targets();

}  // namespace wmtp::fuzz
