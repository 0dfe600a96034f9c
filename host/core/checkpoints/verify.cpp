// Verification, and the names of checkpoint folders.
#include <algorithm>

#include "base/storage_error.hpp"
#include "base/text.hpp"
#include "base/whole_number.hpp"
#include "base/work_progress.hpp"
#include "core/checkpoints/manifest.hpp"
#include "core/checkpoints/manifest_sums.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

std::string hex(uint32_t sum) { return printed("0x%08x", sum); }

void verify_file(const fs::path& path, const Manifest& manifest, SliceDtypes& dtypes, WorkProgress& progress) {
  const std::string name = path.filename();
  const InputFile file(path);
  const int64_t wanted = manifest.files.at(name);
  if (file.size() != wanted) {
    throw Error(ExitStatus::data, path.string() + " has " + std::to_string(file.size()) + " bytes, the manifest says " +
                                      std::to_string(wanted) + "; it was cut short or belongs to another save");
  }
  const std::vector<SliceRange> ranges = slice_ranges(path, manifest.slices);
  dtypes.check(path, ranges);
  for (const SliceRange& range : ranges) {
    const uint32_t sum = crc32c_of_range(file, range.begin, range.end);
    if (sum != range.slice->crc32c) {
      throw Error(ExitStatus::data, path.string() + ": tensor " + printable(range.slice->tensor) +
                                        " has the checksum " + hex(sum) + ", the manifest says " +
                                        hex(range.slice->crc32c) + "; the file is damaged, use an older checkpoint");
    }
    progress.done(range.end - range.begin);
  }
  const uint32_t sum = crc32c_outside(file, ranges);
  if (sum != manifest.sums.at(name)) {
    throw Error(ExitStatus::data, path.string() + ": the bytes outside its tensors have the checksum " + hex(sum) +
                                      ", the manifest says " + hex(manifest.sums.at(name)) +
                                      "; the file is damaged, use an older checkpoint");
  }
}

}  // namespace

Manifest verify_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw Error(ExitStatus::data,
                folder.string() + " is not a folder; name a step-NNNNNN, model or adapter folder of a run");
  }
  Manifest manifest = read_manifest(folder);
  const int64_t named_step = step_of_name(folder.filename().string());
  if (named_step >= 0 && named_step != manifest.step) {
    throw Error(ExitStatus::data, (folder / manifest_file_name).string() + ": its step is " +
                                      std::to_string(manifest.step) + "; the folder's name says " +
                                      std::to_string(named_step));
  }
  int64_t all = 0;
  for (const auto& [name, bytes] : manifest.files) all += bytes;
  WorkProgress progress("verifying " + folder.filename().string(), all, WorkProgress::Unit::bytes);
  SliceDtypes dtypes(manifest.kind);
  for (const auto& [name, bytes] : manifest.files) verify_file(folder / name, manifest, dtypes, progress);
  return manifest;
}

std::string checkpoint_name(int64_t step) { return printed("step-%06lld", static_cast<long long>(step)); }

int64_t step_of_name(std::string_view name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix)) return -1;
  const int64_t step = whole_number(name.substr(prefix.size())).value_or(-1);
  // Only the canonical name is accepted: two folders must not denote the same step.
  return step >= 0 && name == checkpoint_name(step) ? step : -1;
}

std::string rank_file_name(int64_t rank) { return printed("rank-%04lld.safetensors", static_cast<long long>(rank)); }

std::vector<fs::path> list_checkpoints(const fs::path& run_folder) {
  std::vector<fs::path> folders;
  std::error_code failure;
  for (fs::directory_iterator item(run_folder, failure), end; !failure && item != end; item.increment(failure)) {
    std::error_code ignored;
    if (step_of_name(item->path().filename().string()) >= 0 && item->is_directory(ignored)) {
      folders.push_back(item->path());
    }
  }
  if (failure && failure != std::errc::no_such_file_or_directory) {
    throw storage_error("list", run_folder, failure.value());
  }
  std::ranges::sort(folders, std::greater<>{},
                    [](const fs::path& folder) { return step_of_name(folder.filename().string()); });
  return folders;
}

}  // namespace wmtp
