#include "checkpoint/manifest_sums.hpp"

#include <algorithm>

#include "checkpoint/messages.hpp"
#include "checkpoint/safetensors.hpp"

namespace wmtp {

std::vector<SliceRange> slice_ranges(const std::filesystem::path& path, const std::vector<Slice>& slices) {
  std::vector<SliceRange> ranges;
  const std::string name = path.filename();
  for (const Slice& slice : slices) {
    if (slice.file == name) ranges.push_back({.slice = &slice});
  }
  if (ranges.empty()) return ranges;
  const SafetensorsFile file(path);
  for (SliceRange& range : ranges) {
    const auto refuse = [&](const std::string& what) {
      throw Error(ExitStatus::data, path.string() + ": entry " + printable(range.slice->entry) + " of tensor " +
                                        printable(range.slice->tensor) + " " + what +
                                        "; the file is damaged or of another save");
    };
    const TensorEntry* entry = file.find(range.slice->entry);
    if (entry == nullptr) refuse("is missing");
    const int64_t elements = (entry->end - entry->begin) / dtype_size(entry->dtype);
    const int64_t wanted = range.slice->end - range.slice->begin;
    if (elements != wanted) {
      refuse("has " + std::to_string(elements) + " elements, the manifest says " + std::to_string(wanted));
    }
    range.begin = entry->begin;
    range.end = entry->end;
  }
  std::sort(ranges.begin(), ranges.end(), [](const SliceRange& a, const SliceRange& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin < ranges[i - 1].end) {
      throw Error(ExitStatus::data, path.string() + ": entry " + printable(ranges[i].slice->entry) +
                                        " is named by two slices of the manifest; wanted one");
    }
  }
  return ranges;
}

uint32_t crc32c_of_range(const InputFile& file, int64_t begin, int64_t end, uint32_t previous) {
  // Small enough to stay in the second-level cache between the copy and the sum.
  constexpr int64_t piece = 256 << 10;
  thread_local std::vector<char> buffer(piece);
  while (begin < end) {
    const auto count = static_cast<size_t>(std::min(piece, end - begin));
    file.read_at(begin, buffer.data(), count);
    previous = crc32c(buffer.data(), count, previous);
    begin += static_cast<int64_t>(count);
  }
  return previous;
}

uint32_t crc32c_outside(const InputFile& file, const std::vector<SliceRange>& ranges) {
  uint32_t sum = 0;
  int64_t position = 0;
  for (const SliceRange& range : ranges) {
    sum = crc32c_of_range(file, position, range.begin, sum);
    position = range.end;
  }
  return crc32c_of_range(file, position, file.size(), sum);
}

}  // namespace wmtp
