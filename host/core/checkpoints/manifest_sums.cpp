#include "core/checkpoints/manifest_sums.hpp"

#include <algorithm>

#include "base/storage_error.hpp"
#include "core/formats/safetensors/safetensors.hpp"

namespace wmtp {

std::vector<SliceRange> slice_ranges(const std::filesystem::path& path, const std::vector<Slice>& slices) {
  const std::string name = path.filename();
  const auto is_here = [&](const Slice& slice) { return slice.file == name; };
  if (std::ranges::none_of(slices, is_here)) return {};  // may be no safetensors file
  return slice_ranges(SafetensorsFile(path), slices);
}

std::vector<SliceRange> slice_ranges(const SafetensorsFile& file, const std::vector<Slice>& slices) {
  const std::filesystem::path& path = file.path();
  std::vector<SliceRange> ranges;
  for (const Slice& slice : slices) {
    if (slice.file == path.filename()) ranges.emplace_back().slice = &slice;
  }
  for (SliceRange& range : ranges) {
    const auto refuse = [&](const std::string& what) {
      throw Error(ExitStatus::data, path.string() + ": entry " + printable(range.slice->entry) + " of tensor " +
                                        printable(range.slice->tensor) + " " + what +
                                        "; the file is damaged or belongs to another save");
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
    range.dtype = entry->dtype;
  }
  std::ranges::sort(ranges, {}, [](const SliceRange& range) { return std::pair(range.begin, range.end); });
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin < ranges[i - 1].end) {
      throw Error(ExitStatus::data, path.string() + ": entry " + printable(ranges[i].slice->entry) +
                                        " is named by two slices of the manifest");
    }
  }
  return ranges;
}

void SliceDtypes::check(const std::filesystem::path& file, const std::vector<SliceRange>& ranges) {
  for (const SliceRange& range : ranges) {
    const std::string& tensor = range.slice->tensor;
    const auto refuse = [&](const std::string& wanted) {
      throw Error(ExitStatus::data, file.string() + ": tensor " + printable(tensor) + " is " + range.dtype +
                                        "; wanted " + wanted + "; the file was not written by this program");
    };
    const bool is_pipeline_state = tensor.starts_with(pipeline_prefix);
    if (for_resuming_ && !is_pipeline_state && range.dtype != "F32")
      refuse("F32, the dtype of saved parameters and moments");
    if (for_resuming_ &&
        std::find(state_dtype_names.begin(), state_dtype_names.end(), range.dtype) == state_dtype_names.end()) {
      refuse("a dtype of saved pipeline state");
    }
    const auto [first, is_new] = first_.emplace(tensor, range.dtype);
    if (first->second != range.dtype) refuse(first->second + ", as in the tensor's other slices");
  }
}

uint32_t crc32c_of_range(const InputFile& file, int64_t begin, int64_t end, uint32_t previous) {
  // Small enough to stay in the second-level cache between the copy and the checksum.
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
