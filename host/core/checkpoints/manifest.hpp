// Manifest: what a checkpoint folder holds, so that it can be verified without LibTorch and loaded at any world size.
// manifest.json stands in every step-NNNNNN/, model/ and adapter/ folder and is written last.
//
// Every byte of a checkpoint is under a sum: a slice's bytes under the slice's own, so that damage is named by tensor;
// the rest of each file (headers, files without tensors) under the file's; the manifest under its own "crc32c", taken
// over its canonical text without that field. A manifest that is not written canonically is refused, so no bit of it
// can change unseen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/crc32c.hpp"
#include "base/error.hpp"

namespace wmtp {

/// A run of elements of a logical tensor, kept as one safetensors entry of a file.
struct Slice {
  std::string tensor;          ///< logical name: "param/layers.0.attention.wq.weight", "exp_avg/…"
  std::vector<int64_t> shape;  ///< of the whole logical tensor
  int64_t begin = 0, end = 0;  ///< elements of the flattened tensor, half open
  std::string file;            ///< in the folder
  std::string entry;           ///< its safetensors name
  uint32_t crc32c = 0;         ///< of the slice's bytes
};

/// Before the names of the tensors that a pipeline remembers.
inline constexpr const char* pipeline_prefix = "pipeline/";

struct Manifest {
  int64_t step = 0;
  int64_t world_size = 1;
  std::string kind;  ///< "resume", "model" or "adapter"
  std::string config_hash;
  std::map<std::string, std::string> plugins;  ///< "pipeline rho1" -> sha256
  nlohmann::json state;                        ///< of a checkpoint for resuming (saved_state.hpp); else empty
  std::vector<Slice> slices;                   ///< those of one tensor cover it whole, without overlap
  std::map<std::string, int64_t> files;        ///< name -> bytes; write_manifest fills it from the folder
  std::map<std::string, uint32_t> sums;        ///< name -> sum of the bytes outside slices; filled likewise
};

/// A manifest of a version that this program does not know: refused as data, but not damaged.
class UnknownManifestVersion : public Error {
 public:
  explicit UnknownManifestVersion(const std::string& message) : Error(ExitStatus::data, message) {}
};

nlohmann::json to_json(const Manifest& manifest);
/// Error(data) naming file and key. At most 16 MiB are read; the manifest carries its own CRC.
Manifest read_manifest(const std::filesystem::path& folder);
/// The same from the text of a manifest; `where` begins the errors.
Manifest parse_manifest(std::string_view text, const std::string& where);
/// After every other file of the folder is finished: takes sizes and sums from the folder (where `files` is given, it
/// must agree) and writes manifest.json. [one rank, after the others have finished]
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

/// Reads everything and compares sizes and sums. Error(data) names the file, the tensor, found and wanted;
/// Error(storage) when something cannot be read, which is no proof of damage.
Manifest verify_checkpoint(const std::filesystem::path& folder);

/// What one rank writes of a checkpoint for resuming: "rank-0001.safetensors"
std::string rank_file_name(int64_t rank);
/// step-NNNNNN folders of a run, newest first (names only; nothing is opened).
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run_folder);
/// "step-000100"
std::string checkpoint_name(int64_t step);
/// The step of such a name, or -1.
int64_t step_of_name(std::string_view name);

}  // namespace wmtp
