// safetensors files: a reader that never trusts a header, and a writer that knows all shapes beforehand and takes the
// bytes in any order. Format: u64 little-endian N, N bytes of JSON, then the tensors' bytes.
// Refused: N beyond the file or over 16 MiB, duplicate or unknown keys, unknown dtype, shape overflow, size that differs
// from its shape, overlaps, holes, bytes beyond the last tensor. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/durable_file.hpp"

namespace wmtp {

struct TensorEntry {
  std::string name;
  std::string dtype;            ///< "F32", "BF16", "F16", "I64", "U8", …
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;   ///< bytes, absolute in the file
};

int64_t dtype_size(const std::string& dtype);  ///< 0 when unknown

/// Memory-mapped. Error(data) names file, tensor, found and wanted.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  const std::vector<TensorEntry>& entries() const { return entries_; }
  const TensorEntry* find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The mapped bytes of an entry; valid while this object lives.
  const uint8_t* bytes(const TensorEntry& entry) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const uint8_t* map_ = nullptr;
  size_t size_ = 0;
  std::vector<TensorEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

class SafetensorsWriter {
 public:
  /// Lays the tensors out in the given order (begin and end are set here) and writes the header.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorEntry> entries,
                    const std::map<std::string, std::string>& metadata);
  /// Bytes of a part of a tensor: `offset` from the tensor's first byte.
  void write(const std::string& name, int64_t offset, const void* bytes, size_t count);
  void finish();
  int64_t file_size() const { return size_; }

 private:
  DurableFile file_;
  std::map<std::string, TensorEntry> entries_;
  int64_t size_ = 0;
};

}  // namespace wmtp
