// safetensors files: a reader that validates the whole header, and a writer that gets all shapes first and then accepts
// bytes in any order. Format: u64 little-endian N, N bytes of JSON, the tensors' bytes.
// Refused: N beyond the file or over 16 MiB, a name or a gap of over 64 KiB in the JSON, duplicate or unknown keys,
// unknown dtype, more than 32 dimensions, shape overflow, byte count that differs from the shape's, overlaps, holes,
// bytes after the last tensor; files of torch.save (the message gives the command that converts them).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/durable_file.hpp"
#include "io/input_file.hpp"

namespace wmtp {

struct TensorEntry {
  std::string name;
  std::string dtype;  ///< "F32", "BF16", "F16", "I64", "U8", …
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  ///< byte offsets from the start of the file
};

int64_t dtype_size(const std::string& dtype);  ///< 0 if unknown

/// Error(data) names the file, the tensor, what was found and what was wanted.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  SafetensorsFile(const SafetensorsFile&) = delete;
  const std::vector<TensorEntry>& entries() const { return entries_; }  ///< sorted by position in the file
  const TensorEntry* find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Reads `count` bytes at `offset` in the entry. Error(bug) beyond the entry.
  void read(const TensorEntry& entry, int64_t offset, void* bytes, size_t count) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  InputFile file_;
  std::vector<TensorEntry> entries_;
  std::unordered_map<std::string_view, size_t> index_;
  std::map<std::string, std::string> metadata_;
};

class SafetensorsWriter {
 public:
  /// Lays out the tensors in the given order (their begin and end are ignored) and writes the header.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorEntry> entries,
                    const std::map<std::string, std::string>& metadata);
  /// Writes part of a tensor at `offset` bytes from its start. Each byte must be written exactly once.
  void write(const std::string& name, int64_t offset, const void* bytes, size_t count);
  void finish();  ///< Error(bug) names a tensor that was not written completely
  int64_t file_size() const { return size_; }

 private:
  struct Part {
    int64_t begin = 0, end = 0, written = 0;
  };
  DurableFile file_;
  std::string path_;
  std::map<std::string, Part> parts_;
  int64_t size_ = 0;
};

}  // namespace wmtp
