// Where the slices of a checkpoint lie in its files, in which dtype, and the sums over and between them: shared by the
// writer of the manifest, by verification, and by the run that loads it.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/checkpoints/manifest.hpp"
#include "core/formats/safetensors/safetensors.hpp"
#include "io/input_file.hpp"

namespace wmtp {

struct SliceRange {
  const Slice* slice = nullptr;
  int64_t begin = 0, end = 0;  ///< bytes in the file
  std::string dtype;           ///< of the entry
};

/// The places of those `slices` that lie in the file, in the order of their bytes. Error(data) when an entry is
/// missing, has another number of elements than its slice, or is named by two slices.
std::vector<SliceRange> slice_ranges(const std::filesystem::path& file, const std::vector<Slice>& slices);
std::vector<SliceRange> slice_ranges(const SafetensorsFile& file, const std::vector<Slice>& slices);

/// Holds the slices of a checkpoint to one dtype for each tensor; of one for resuming to F32, and to one of
/// state_dtype_names where a pipeline remembers it.
class SliceDtypes {
 public:
  explicit SliceDtypes(const std::string& kind) : for_resuming_(kind == "resume") {}
  /// Error(data) names the file, the tensor, found and wanted. `ranges` are those of the file.
  void check(const std::filesystem::path& file, const std::vector<SliceRange>& ranges);

 private:
  bool for_resuming_;
  std::map<std::string, std::string> first_;  ///< by tensor
};

/// In which a pipeline's state is saved.
inline constexpr std::array<const char*, 8> state_dtype_names{"F32", "F64", "BF16", "F16", "I64", "I32", "U8", "BOOL"};

/// Over the bytes of [begin, end), continuing with `previous`.
uint32_t crc32c_of_range(const InputFile& file, int64_t begin, int64_t end, uint32_t previous = 0);

/// Over all bytes that no range holds.
uint32_t crc32c_outside(const InputFile& file, const std::vector<SliceRange>& ranges);

/// The values that read_manifest accepts; Error(status) otherwise.
void check_manifest(const Manifest& manifest, const std::string& where, ExitStatus status);

}  // namespace wmtp
