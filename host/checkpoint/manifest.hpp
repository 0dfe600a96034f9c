// Manifest: the contents of a checkpoint folder, so that it can be verified without LibTorch and loaded at any world
// size. Every step-NNNNNN/, model/ and adapter/ folder contains manifest.json, which is written last.
//
// Checksums cover every byte of a checkpoint: each slice has its own, so that damage can be attributed to a tensor;
// each file has one for its other bytes (headers, files without tensors); the manifest has "crc32c", computed over its
// canonical text without that field. A manifest whose text is not canonical is refused, so every flipped bit is
// detected.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/crc32c.hpp"
#include "base/enum_names.hpp"
#include "base/error.hpp"
#include "base/json.hpp"

namespace wmtp {

/// A range of elements of a logical tensor, or of some of its columns, stored as one safetensors entry of a file.
struct Slice {
  std::string tensor;          ///< logical name: "param/layers.0.attention.wq.weight", "exp_avg/…"
  std::vector<int64_t> shape;  ///< of the whole logical tensor
  int64_t begin = 0, end = 0;  ///< range of the flattened tensor, or of the flattened columns; half open
  std::string file;            ///< in the folder
  std::string entry;           ///< its safetensors name
  uint32_t crc32c = 0;         ///< of the slice's bytes
  /// [first, end): the slice is a range of these columns of a matrix, which tensor parallelism cut; empty: of all.
  std::vector<int64_t> columns = {};

  /// Calls visit(first element in the flattened tensor, first element of the entry, count) for each contiguous run of
  /// elements that the slice has of [first, last) of the flattened tensor, in order.
  template <class Visit>
  void for_each_run_in(int64_t first, int64_t last, Visit visit) const {
    if (columns.empty()) {
      const int64_t from = std::max(first, begin), to = std::min(last, end);
      if (from < to) visit(from, from - begin, to - from);
      return;
    }
    const int64_t width = shape.back(), part = columns[1] - columns[0];
    for (int64_t row = std::max(first / width, begin / part); row * width < last && row * part < end; ++row) {
      const int64_t to_columns = row * part - (row * width + columns[0]);  // from an element to one of the columns
      const int64_t from = std::max({first + to_columns, row * part, begin});
      const int64_t to = std::min({last + to_columns, (row + 1) * part, end});
      if (from < to) visit(from - to_columns, from - begin, to - from);
    }
  }
};
void to_json(Json& json, const Slice& slice);
void from_json(const Json& json, Slice& slice);

inline constexpr const char* manifest_file_name = "manifest.json";

// Prefixes of the logical names: parameters, their moments, and pipeline state.
inline constexpr const char *parameter_prefix = "param/", *average_prefix = "exp_avg/", *square_prefix = "exp_avg_sq/",
                            *ema_prefix = "ema/", *pipeline_prefix = "pipeline/";

/// What a folder contains: the state of a run to resume, a finished model, or a finished adapter.
enum class ManifestKind { resume, model, adapter };
template <>
inline constexpr auto names_of<ManifestKind> = std::array{"resume", "model", "adapter"};

struct Manifest {
  int64_t step = 0;
  int64_t world_size = 1;
  ManifestKind kind = ManifestKind::resume;
  std::string config_hash;
  std::map<std::string, std::string> plugins;  ///< "pipeline rho1" -> sha256
  Json state = Json::object();                 ///< for resuming (saved_state.hpp); else {}
  std::vector<Slice> slices;                   ///< the slices of a tensor cover it, or each of its column ranges
  std::map<std::string, int64_t> files;        ///< name -> bytes; set by write_manifest
  std::map<std::string, uint32_t> sums;        ///< name -> checksum of the bytes outside slices; also set there
  std::map<std::string, std::string> hosts;    ///< name -> name of the host that keeps it, if not this folder's
};

/// The manifest has an unknown version: refused as Error(data), but not treated as damage.
class UnknownManifestVersion : public Error {
 public:
  explicit UnknownManifestVersion(const std::string& message) : Error(ExitStatus::data, message) {}
};

Json to_json(const Manifest& manifest);
/// Error(data) names the file and the key. Reads at most 256 MiB; that of 7B on 1,024 ranks has about 25 MB.
Manifest read_manifest(const std::filesystem::path& folder);
/// The same from the text of a manifest; errors start with `where`.
Manifest parse_manifest(std::string_view text, const std::string& where);
/// Computes sizes and checksums of the other files in the folder, which must be finished (sizes already in `files` must
/// agree), and writes manifest.json. Sizes and checksums of files on other hosts must be set. [one rank, after all
/// others have finished]
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

/// The name of a rank's file in a checkpoint for resuming: "rank-0001.safetensors"
std::string rank_file_name(int64_t rank);
/// The step-NNNNNN folders of a run, newest first; judged by name only.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run_folder);
/// "step-000100"
std::string checkpoint_name(int64_t step);
/// The step in such a name, or -1.
int64_t parse_checkpoint_step(std::string_view name);

}  // namespace wmtp
