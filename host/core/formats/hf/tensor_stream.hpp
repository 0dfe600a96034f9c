// Tensors from file to file, piece by piece: at most one attention head's rows are in memory. On the way their numbers
// may change format, and their rows the order that rotary positions pair them in:
//   pairs   Meta's: rows 2i and 2i + 1 of a head turn together
//   halves  Hugging Face's: rows i and i + head_dim / 2
// Row j * head_dim / 2 + i of halves is row 2i + j of pairs (transformers, convert_llama_weights_to_hf.py).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/checkpoints/manifest.hpp"
#include "core/formats/safetensors/safetensors_folder.hpp"

namespace wmtp {

enum class RowOrder { kept, pairs_to_halves, halves_to_pairs };

/// Where row `pair_row` of a head in pairs lies in halves.
inline int64_t halves_row(int64_t pair_row, int64_t head_rows) { return pair_row % 2 * (head_rows / 2) + pair_row / 2; }

/// One head's rows, `row_bytes` each. `in` and `out` do not overlap.
void reorder_rows(RowOrder order, const uint8_t* in, uint8_t* out, int64_t head_rows, int64_t row_bytes);

/// A tensor and where it goes: more than one target gives copies.
struct TensorMove {
  TensorPlace source;
  struct Target {
    size_t file = 0;  ///< of those that are written together
    std::string name;
  };
  std::vector<Target> targets;
  std::vector<int64_t> shape;  ///< of the targets
  std::string dtype = "F32";   ///< of the targets: F32 or BF16
  RowOrder order = RowOrder::kept;
  int64_t heads = 0, rows = 0;  ///< of a tensor that is reordered: all its rows, and how many heads they fall into
};

/// What the manifest beside some weights says of them, if there is one. Weights of other programs have none, and none
/// of this is checked then.
class SourceSums {
 public:
  SourceSums() = default;
  /// Reads `folder`/manifest.json, and compares sizes and what lies outside tensors. Error(data) names what differs,
  /// and a folder of another kind.
  SourceSums(const std::filesystem::path& folder, const std::string& kind);
  /// Error(data) when the bytes of the tensor have another sum than the manifest says.
  void check(const TensorPlace& place, uint32_t sum) const;

 private:
  bool given_ = false;
  std::map<std::pair<std::string, std::string>, uint32_t> sums_;  ///< by file and entry
};

/// Writes `files` into `folder`, each a safetensors file of the targets that name it, in the order in which the sources
/// lie: both sides are read and written front to back. The result is ready for a manifest.
std::vector<Slice> move_tensors(std::vector<TensorMove> moves, const std::filesystem::path& folder,
                                const std::vector<std::string>& files, const SourceSums& sums);

}  // namespace wmtp
