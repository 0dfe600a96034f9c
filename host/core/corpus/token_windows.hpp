// TokenWindows: windows of sequence_length ids, by index. Read by position (not mapped: a mapped file that shrinks
// kills the reader), so each rank reads its share only and a file may be larger than memory. Safe to use from many
// threads. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "core/experiment/experiment.hpp"

namespace wmtp {

class TokenWindows {
 public:
  virtual ~TokenWindows() = default;
  /// How many windows there are; for "random" no end (INT64_MAX).
  virtual int64_t count() const = 0;
  /// Writes `sequence_length` ids of window `index` (0-based). Error(data) with file, position and id when an id is not
  /// below the vocabulary's size, or when the file has shrunk.
  virtual void read(int64_t index, int64_t* ids) const = 0;
};

/// A file of raw little-endian ids (uint16 or uint32); the header of 1,024 bytes that llm.c puts before them is
/// recognised and skipped. Error(data): no regular file, empty, a size that is no multiple of the id's, such a header
/// with another version, count or dtype, fewer ids than one window. Ids behind the last whole window are not read.
std::unique_ptr<TokenWindows> open_token_file(const std::filesystem::path& file, const std::string& dtype,
                                              int64_t sequence_length, int64_t vocab_size);

/// Ids drawn from (seed, window index), uniform below vocab_size.
std::unique_ptr<TokenWindows> random_windows(int64_t seed, int64_t sequence_length, int64_t vocab_size);

}  // namespace wmtp
