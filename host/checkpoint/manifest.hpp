// Manifest: what a checkpoint folder holds, so that it can be verified without LibTorch and loaded at any world size.
// manifest.json stands in every step-NNNNNN/ and model/ folder and is written last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

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

struct Manifest {
  int64_t step = 0;
  int64_t world_size = 1;
  std::string kind;            ///< "resume" or "model"
  std::string config_hash;
  std::map<std::string, std::string> plugins;  ///< "pipeline rho1" -> sha256
  nlohmann::json state;        ///< schedule, cursor, guard window, plugin state names: small things
  std::vector<Slice> slices;
  std::map<std::string, int64_t> files;        ///< name -> bytes
};

nlohmann::json to_json(const Manifest& manifest);
/// Error(data) naming file and key. At most 16 MiB are read; the manifest carries its own CRC.
Manifest read_manifest(const std::filesystem::path& folder);
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

/// Reads everything and compares sizes and sums. Error(data) names the file, the tensor, found and wanted.
Manifest verify_checkpoint(const std::filesystem::path& folder);

/// step-NNNNNN folders of a run, newest first (names only; nothing is opened).
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run_folder);

}  // namespace wmtp
