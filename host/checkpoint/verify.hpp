// Verification of a checkpoint: positions, dtypes and checksums of its slices. Also used when the manifest is written
// and when a checkpoint is loaded.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors/safetensors.hpp"
#include "io/input_file.hpp"

namespace wmtp {

/// Reads all files and compares sizes and checksums; files that other hosts keep may be missing. Error(data) names the
/// file, the tensor, the found and the expected value; Error(storage) if something cannot be read, which does not prove
/// damage.
Manifest verify_checkpoint(const std::filesystem::path& folder);

/// The names of the manifest's files that are in the folder and pass the same checks. Error(storage) as above.
std::set<std::string> intact_files(const std::filesystem::path& folder, const Manifest& manifest);

struct SliceRange {
  const Slice* slice = nullptr;
  int64_t begin = 0, end = 0;  ///< bytes in the file
  std::string dtype;           ///< of the entry
};

/// Ranges of the `slices` in this file, sorted by position. Error(data) if an entry is missing, differs from its slice
/// in the number of elements, or is named by two slices.
std::vector<SliceRange> slice_ranges(const std::filesystem::path& file, const std::vector<Slice>& slices);
std::vector<SliceRange> slice_ranges(const SafetensorsFile& file, const std::vector<Slice>& slices);

/// Checks that all slices of a tensor have one dtype; in a checkpoint for resuming that must be F32, or one of
/// state_dtype_names for the state of a pipeline.
class SliceDtypes {
 public:
  explicit SliceDtypes(ManifestKind kind) : for_resuming_(kind == ManifestKind::resume) {}
  /// `ranges`: those of `file`. Error(data) names the file, the tensor, the found and the expected value.
  void check(const std::filesystem::path& file, const std::vector<SliceRange>& ranges);

 private:
  bool for_resuming_;
  std::map<std::string, std::string> first_;  ///< the dtype found first, by tensor
};

/// The dtypes in which the state of a pipeline is saved.
inline constexpr std::array<const char*, 8> state_dtype_names{"F32", "F64", "BF16", "F16", "I64", "I32", "U8", "BOOL"};

/// Checksum of the bytes in [begin, end), continuing from `previous`.
uint32_t crc32c_range(const InputFile& file, int64_t begin, int64_t end, uint32_t previous = 0);

/// Checksum of all bytes outside the ranges.
uint32_t crc32c_outside(const InputFile& file, const std::vector<SliceRange>& ranges);

}  // namespace wmtp
