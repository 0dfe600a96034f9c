// Copies tensors between files piece by piece, with at most the rows of one attention head in memory. Converts dtypes
// and the row order, which determines the rows that rotary positions pair:
//   pairs   Meta: rows 2i and 2i + 1 of a head are rotated together
//   halves  Hugging Face: rows i and i + head_dim / 2
// Row j * head_dim / 2 + i of halves is row 2i + j of pairs (transformers, convert_llama_weights_to_hf.py).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors_folder.hpp"

namespace wmtp {

enum class RowOrder { kept, pairs_to_halves, halves_to_pairs };

/// The row in halves order that corresponds to a head's row `pair_row` in pairs order.
inline int64_t halves_row(int64_t pair_row, int64_t head_rows) { return pair_row % 2 * (head_rows / 2) + pair_row / 2; }

/// Reorders one head's rows of `row_bytes` each. `in` and `out` must not overlap.
void reorder_rows(RowOrder order, const uint8_t* in, uint8_t* out, int64_t head_rows, int64_t row_bytes);

/// A tensor and its targets, each of which receives a copy.
struct TensorCopy {
  StoredTensor source;
  struct Target {
    size_t file = 0;  ///< index into the files of copy_tensors
    std::string name;
  };
  std::vector<Target> targets;
  std::vector<int64_t> shape;  ///< of the targets
  std::string dtype = "F32";   ///< of the targets: F32 or BF16
  RowOrder order = RowOrder::kept;
  int64_t heads = 0, rows = 0;  ///< of a reordered tensor: its number of heads and its number of rows

  /// Requests a reordering, unless `rotary_heads` is 0.
  void reorder(RowOrder wanted, int64_t rotary_heads, int64_t all_rows);
};

/// Checksums from the manifest in a folder of weights. Weights of other programs have none and are not checked.
class SourceChecksums {
 public:
  SourceChecksums() = default;
  /// Reads manifest.json, if `folder` has one, and checks file sizes and the bytes outside tensors; of a training
  /// checkpoint everything. Error(data) names the difference, or refuses a manifest of another kind.
  SourceChecksums(const std::filesystem::path& folder, ManifestKind kind);
  /// Error(data) if `sum` differs from the tensor's checksum in the manifest.
  void check(const StoredTensor& place, uint32_t sum) const;

 private:
  bool has_manifest_ = false;
  std::map<std::pair<std::string, std::string>, uint32_t> sums_;  ///< by file and entry
};

/// Writes the safetensors files `files` into `folder`, each with the targets that name it. Reads and writes
/// sequentially. Returns the slices for a manifest. Error(data) for a tensor with NaN or infinity.
std::vector<Slice> copy_tensors(std::vector<TensorCopy> moves, const std::filesystem::path& folder,
                                const std::vector<std::string>& files, const SourceChecksums& sums);

}  // namespace wmtp
