// Where the slices of a checkpoint lie in its files, and the sums over and between them: shared by the writer of the
// manifest and by verification.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/input_file.hpp"
#include "checkpoint/manifest.hpp"

namespace wmtp {

struct SliceRange {
  const Slice* slice = nullptr;
  int64_t begin = 0, end = 0;  ///< bytes in the file
};

/// The places of those `slices` that lie in the file, in the order of their bytes. Error(data) when an entry is
/// missing, has another number of elements than its slice, or is named by two slices.
std::vector<SliceRange> slice_ranges(const std::filesystem::path& file, const std::vector<Slice>& slices);

/// Over the bytes of [begin, end), continuing with `previous`.
uint32_t crc32c_of_range(const InputFile& file, int64_t begin, int64_t end, uint32_t previous = 0);

/// Over all bytes that no range holds.
uint32_t crc32c_outside(const InputFile& file, const std::vector<SliceRange>& ranges);

/// The values that read_manifest accepts; Error(status) otherwise.
void check_manifest(const Manifest& manifest, const std::string& where, ExitStatus status);

}  // namespace wmtp
