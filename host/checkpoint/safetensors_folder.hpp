// Weights in one safetensors file or in a folder of several: the files named by model.safetensors.index.json (Hugging
// Face); the shards of a training checkpoint, whose parameters are read as whole tensors; else all *.safetensors files.
// Tensor names must be unique.
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors/safetensors.hpp"

namespace wmtp {

inline constexpr const char* safetensors_index_name = "model.safetensors.index.json";

/// A slice of a tensor and the entry that contains it.
struct TensorShard {
  const SafetensorsFile* file = nullptr;
  const TensorEntry* entry = nullptr;
  Slice slice;
};

/// A tensor and the file that contains it, of a sharded tensor its first; valid while its SafetensorsFolder exists.
struct StoredTensor {
  const SafetensorsFile* file = nullptr;
  const TensorEntry* entry = nullptr;                ///< of a sharded tensor: the whole, not in `file`
  const std::vector<TensorShard>* shards = nullptr;  ///< null if it is not sharded
  /// Reads `count` bytes at `offset` in the tensor.
  void read_bytes(int64_t offset, void* bytes, size_t count) const;
  /// Error(data) if one of `count` elements from element `begin` on, whose bytes these are, is NaN or infinite: says
  /// where, and counts such tensors of the file, unless it holds shards. Error(bug) if the dtype is not a weight dtype.
  void check_finite(int64_t begin, const uint8_t* bytes, int64_t count) const;
  /// Error(data) if all its bytes are zero, as in a file whose space a copy reserved and did not fill. Reads only up to
  /// the first other byte.
  void check_not_zero() const;
  /// Reads `count` elements from element `begin` on, as fp32. Errors of check_finite.
  void read(int64_t begin, int64_t count, float* out) const;
};

/// Whether two tensors have the same shape, dtype and bytes.
bool equal_bytes(const StoredTensor& one, const StoredTensor& other);

class SafetensorsFolder {
 public:
  /// `path`: a file or a folder. Error(data) if there is nothing to read, if the index names a tensor or a file that
  /// does not exist, if two files contain a tensor of the same name, or if other hosts keep shards of a checkpoint.
  explicit SafetensorsFolder(const std::filesystem::path& path);
  std::optional<StoredTensor> find(const std::string& name) const;
  std::vector<std::string> names() const;  ///< in alphabetical order

 private:
  void open(const std::filesystem::path& file);
  void open_by_index(const std::filesystem::path& index);
  void open_all(const std::filesystem::path& folder);
  void open_checkpoint(const std::filesystem::path& folder);

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, StoredTensor> places_;
  std::deque<TensorEntry> whole_;  ///< of sharded tensors
  std::map<std::string, std::vector<TensorShard>> shards_;
};

/// Whether a folder is a checkpoint for resuming, judged by the names of its files.
bool is_training_checkpoint(const std::filesystem::path& folder);

/// Whether a name from a checkpoint or an index is a plain file name: no directory part, no leading dot, no control
/// characters.
bool is_plain_file_name(const std::string& name);

}  // namespace wmtp
