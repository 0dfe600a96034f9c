// safetensors files: a reader that never trusts a header, and a writer that knows all shapes beforehand and takes the
// bytes in any order. Format: u64 little-endian N, N bytes of JSON, then the tensors' bytes.
// Refused: N beyond the file or over 16 MiB, a name or a gap of over 64 KiB in the JSON, duplicate or unknown keys,
// unknown dtype, more than 32 dimensions, shape overflow, size that differs from its shape, overlaps, holes, bytes
// beyond the last tensor; torch.save's files, with the command that converts them. Knows no LibTorch.
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
  int64_t begin = 0, end = 0;  ///< bytes, absolute in the file
};

int64_t dtype_size(const std::string& dtype);  ///< 0 when unknown

/// Memory-mapped. Error(data) names file, tensor, found and wanted.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;
  const std::vector<TensorEntry>& entries() const { return entries_; }  ///< in the order of their bytes
  const TensorEntry* find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The mapped bytes of an entry; valid while this object lives. Need not be aligned to the dtype: a foreign header
  /// may have any length.
  const uint8_t* bytes(const TensorEntry& entry) const { return map_ + entry.begin; }
  /// `count` bytes from `offset` of the entry on, without the mapping: what reads a whole file once is told of a
  /// failing disk by an Error. Error(bug) beyond the entry.
  void read(const TensorEntry& entry, int64_t offset, void* bytes, size_t count) const;
  const std::filesystem::path& path() const { return path_; }
  int64_t file_size() const { return static_cast<int64_t>(size_); }

 private:
  std::filesystem::path path_;
  InputFile file_;
  const uint8_t* map_ = nullptr;
  size_t size_ = 0;
  std::vector<TensorEntry> entries_;
  std::unordered_map<std::string_view, size_t> index_;
  std::map<std::string, std::string> metadata_;
};

class SafetensorsWriter {
 public:
  /// Lays the tensors out in the given order (begin and end are set here) and writes the header.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorEntry> entries,
                    const std::map<std::string, std::string>& metadata);
  /// Bytes of a part of a tensor: `offset` from the tensor's first byte. Each byte is written exactly once.
  void write(const std::string& name, int64_t offset, const void* bytes, size_t count);
  void finish();  ///< Error(bug) names a tensor that was not written whole
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
