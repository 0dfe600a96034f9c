#include "checkpoint/verify.hpp"

#include <algorithm>

#include "base/files.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "checkpoint/safetensors/safetensors.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

std::string hex(uint32_t sum) { return printed("0x%08x", sum); }

void verify_file(const fs::path& path, const Manifest& manifest, SliceDtypes& dtypes, WorkProgress& progress) {
  const std::string name = path.filename();
  const InputFile file(path);
  const int64_t wanted = manifest.files.at(name);
  if (file.size() != wanted) {
    throw Error(ExitStatus::data, path.string() + " has " + std::to_string(file.size()) +
                                      " bytes, but the manifest lists " + std::to_string(wanted) +
                                      "; it is truncated or belongs to another checkpoint");
  }
  const std::vector<SliceRange> ranges = slice_ranges(path, manifest.slices);
  dtypes.check(path, ranges);
  for (const SliceRange& range : ranges) {
    const uint32_t sum = crc32c_range(file, range.begin, range.end);
    if (sum != range.slice->crc32c) {
      throw Error(ExitStatus::data, path.string() + ": tensor " + printable(range.slice->tensor) +
                                        " has the checksum " + hex(sum) + ", but the manifest lists " +
                                        hex(range.slice->crc32c) + "; the file is damaged, use an older checkpoint");
    }
    progress.advance(range.end - range.begin);
  }
  const uint32_t sum = crc32c_outside(file, ranges);
  if (sum != manifest.sums.at(name)) {
    throw Error(ExitStatus::data, path.string() + ": the bytes outside its tensors have the checksum " + hex(sum) +
                                      ", but the manifest lists " + hex(manifest.sums.at(name)) +
                                      "; the file is damaged, use an older checkpoint");
  }
}

WorkProgress progress_of(const fs::path& folder, const Manifest& manifest) {
  int64_t all = 0;
  for (const auto& [name, bytes] : manifest.files) all += bytes;
  return WorkProgress("verifying " + folder.filename().string(), all, WorkProgress::Unit::bytes);
}

}  // namespace

std::vector<SliceRange> slice_ranges(const std::filesystem::path& path, const std::vector<Slice>& slices) {
  const std::string name = path.filename();
  const auto is_here = [&](const Slice& slice) { return slice.file == name; };
  if (std::ranges::none_of(slices, is_here)) return {};  // may not be a safetensors file
  return slice_ranges(SafetensorsFile(path), slices);
}

std::vector<SliceRange> slice_ranges(const SafetensorsFile& file, const std::vector<Slice>& slices) {
  const std::filesystem::path& path = file.path();
  std::vector<SliceRange> ranges;
  for (const Slice& slice : slices)
    if (slice.file == path.filename()) ranges.emplace_back().slice = &slice;
  for (SliceRange& range : ranges) {
    const auto refuse = [&](const std::string& what) {
      throw Error(ExitStatus::data, path.string() + ": entry " + printable(range.slice->entry) + " of tensor " +
                                        printable(range.slice->tensor) + " " + what +
                                        "; the file is damaged or belongs to another checkpoint");
    };
    const TensorEntry* entry = file.find(range.slice->entry);
    if (entry == nullptr) refuse("is missing");
    const int64_t elements = (entry->end - entry->begin) / dtype_size(entry->dtype);
    const int64_t wanted = range.slice->end - range.slice->begin;
    if (elements != wanted)
      refuse("has " + std::to_string(elements) + " elements, but the manifest lists " + std::to_string(wanted));
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

uint32_t crc32c_range(const InputFile& file, int64_t begin, int64_t end, uint32_t previous) {
  // Small enough to stay in the second-level cache between the copy and the checksum.
  constexpr int64_t piece = 256 << 10;
  thread_local std::vector<char> buffer(piece);
  while (begin < end) {
    const auto count = size_t(std::min(piece, end - begin));
    file.read_at(begin, buffer.data(), count);
    previous = crc32c(buffer.data(), count, previous);
    begin += int64_t(count);
  }
  return previous;
}

uint32_t crc32c_outside(const InputFile& file, const std::vector<SliceRange>& ranges) {
  uint32_t sum = 0;
  int64_t position = 0;
  for (const SliceRange& range : ranges) {
    sum = crc32c_range(file, position, range.begin, sum);
    position = range.end;
  }
  return crc32c_range(file, position, file.size(), sum);
}

Manifest verify_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw Error(ExitStatus::data,
                folder.string() + " is not a folder; specify a step-NNNNNN, model or adapter folder of a run");
  }
  Manifest manifest = read_manifest(folder);
  const int64_t named_step = parse_checkpoint_step(folder.filename().string());
  if (named_step >= 0 && named_step != manifest.step) {
    throw Error(ExitStatus::data, (folder / manifest_file_name).string() + ": its step is " +
                                      std::to_string(manifest.step) + "; the folder's name says " +
                                      std::to_string(named_step));
  }
  WorkProgress progress = progress_of(folder, manifest);
  SliceDtypes dtypes(manifest.kind);
  for (const auto& [name, bytes] : manifest.files)
    if (!manifest.hosts.contains(name) || is_there(folder / name))
      verify_file(folder / name, manifest, dtypes, progress);
  return manifest;
}

std::set<std::string> intact_files(const fs::path& folder, const Manifest& manifest) {
  WorkProgress progress = progress_of(folder, manifest);
  SliceDtypes dtypes(manifest.kind);
  std::set<std::string> intact;
  for (const auto& [name, bytes] : manifest.files) {
    if (!is_there(folder / name)) continue;
    try {
      verify_file(folder / name, manifest, dtypes, progress);
      intact.insert(name);
    } catch (const Error& error) {
      if (error.status() != ExitStatus::data) throw;
    }
  }
  return intact;
}

}  // namespace wmtp
