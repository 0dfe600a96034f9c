// Checks of a manifest's values, independent of the program that wrote it.
#include <algorithm>

#include "base/storage_error.hpp"
#include "core/checkpoints/manifest_sums.hpp"
#include "core/checkpoints/saved_state.hpp"
#include "core/formats/safetensors/safetensors_folder.hpp"

namespace wmtp {
namespace {

constexpr size_t max_dimensions = 32;
constexpr int64_t max_step = 1'000'000'000'000;

class ManifestCheck {
 public:
  ManifestCheck(const Manifest& manifest, const std::string& where, ExitStatus status)
      : manifest_(manifest), where_(where), status_(status) {}

  void run() const {
    if (manifest_.step < 0 || manifest_.step > max_step) {
      refuse("step is " + std::to_string(manifest_.step) + "; wanted 0 to " + std::to_string(max_step));
    }
    if (manifest_.world_size < 1 || manifest_.world_size > 1'000'000) {
      refuse("world_size is " + std::to_string(manifest_.world_size) + "; wanted 1 to 1000000");
    }
    if (manifest_.kind != "resume" && manifest_.kind != "model" && manifest_.kind != "adapter") {
      refuse("kind is " + printable(manifest_.kind) + "; wanted \"resume\", \"model\" or \"adapter\"");
    }
    for (const auto& [name, bytes] : manifest_.files) {
      if (!is_plain_file_name(name) || name == manifest_file_name) {
        refuse("files names " + printable(name) + "; wanted names of files in the folder of the manifest");
      }
      if (bytes < 0) refuse("files: " + printable(name) + " has " + std::to_string(bytes) + " bytes; wanted 0 or more");
    }
    std::map<std::string, std::vector<const Slice*>> tensors;
    for (const Slice& slice : manifest_.slices) {
      check_slice(slice);
      tensors[slice.tensor].push_back(&slice);
    }
    for (auto& [tensor, slices] : tensors) check_cover(slices);
    if (manifest_.kind == "resume") {
      check_rank_files();
      check_pipeline_tensors(saved_state(manifest_, where_, status_), tensors);
    } else {
      check_single_rank();
    }
  }

 private:
  void check_slice(const Slice& slice) const {
    if (slice.tensor.empty() || slice.entry.empty()) refuse("a slice has an empty tensor or entry name");
    if (!manifest_.files.contains(slice.file)) {
      refuse(slice, "is in the file " + printable(slice.file) + ", which files does not list");
    }
    const int64_t elements = count_elements(slice);
    if (slice.begin < 0 || slice.begin > slice.end || slice.end > elements) {
      refuse(slice, "is [" + std::to_string(slice.begin) + ", " + std::to_string(slice.end) + ") of " +
                        std::to_string(elements) + " elements; wanted a range inside the tensor");
    }
  }

  int64_t count_elements(const Slice& slice) const {
    if (slice.shape.size() > max_dimensions) refuse(slice, "has more than 32 dimensions");
    int64_t largest_stride = 1;
    bool empty = false;
    for (const int64_t length : slice.shape) {
      empty |= length == 0;
      if (length < 0 || __builtin_mul_overflow(largest_stride, std::max<int64_t>(length, 1), &largest_stride)) {
        refuse(slice, "has a shape that is negative or too large");
      }
    }
    return empty ? 0 : largest_stride;
  }

  void check_cover(std::vector<const Slice*>& slices) const {
    std::ranges::sort(slices, {}, [](const Slice* slice) { return std::pair(slice->begin, slice->end); });
    int64_t covered = 0;
    for (const Slice* slice : slices) {
      if (slice->shape != slices.front()->shape) refuse(*slice, "has another shape than the tensor's other slices");
      if (slice->begin != covered) {
        refuse(*slice, "begins at element " + std::to_string(slice->begin) + "; wanted " + std::to_string(covered) +
                           ", the end of the previous one");
      }
      covered = slice->end;
    }
    if (const int64_t elements = count_elements(*slices.front()); covered != elements) {
      refuse(*slices.back(), "ends at element " + std::to_string(covered) + " of " + std::to_string(elements) +
                                 "; wanted slices that cover the tensor");
    }
  }

  /// Every rank writes one file, even if it has nothing to save.
  void check_rank_files() const {
    const std::string size = "world_size is " + std::to_string(manifest_.world_size);
    int64_t listed = 0;
    for (const auto& [name, bytes] : manifest_.files) listed += name.starts_with("rank-") ? 1 : 0;
    for (int64_t rank = 0; rank < manifest_.world_size; ++rank) {
      if (const std::string name = rank_file_name(rank); !manifest_.files.contains(name)) {
        refuse(size + ", but files does not list " + name);
      }
    }
    if (listed != manifest_.world_size) {
      refuse(size + ", but files lists " + std::to_string(listed) + " files of ranks; wanted one for each");
    }
  }

  void check_single_rank() const {
    if (manifest_.world_size != 1) {
      refuse("world_size is " + std::to_string(manifest_.world_size) + "; wanted 1 where kind is " + manifest_.kind);
    }
    if (manifest_.state != nlohmann::json::object())
      refuse("state is not empty; wanted {} where kind is " + manifest_.kind);
  }

  void check_pipeline_tensors(const SavedState& state,
                              const std::map<std::string, std::vector<const Slice*>>& tensors) const {
    for (const auto& [name, shape] : state.pipeline_tensors) {
      const auto found = tensors.find(pipeline_prefix + name);
      if (found == tensors.end()) refuse("state: pipeline_tensors names " + printable(name) + ", which has no slice");
      if (found->second.front()->shape != shape) {
        refuse(*found->second.front(), "has another shape than in state: pipeline_tensors");
      }
    }
    for (const auto& [tensor, slices] : tensors) {
      if (tensor.starts_with(pipeline_prefix) &&
          !state.pipeline_tensors.contains(tensor.substr(std::string_view(pipeline_prefix).size()))) {
        refuse(*slices.front(), "is missing in state: pipeline_tensors");
      }
    }
  }

  [[noreturn]] void refuse(const Slice& slice, const std::string& what) const {
    refuse("slice of tensor " + printable(slice.tensor) + " " + what);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(status_, where_ + ": " + what + "; the file was not written by this program");
  }

  const Manifest& manifest_;
  const std::string& where_;
  const ExitStatus status_;
};

}  // namespace

void check_manifest(const Manifest& manifest, const std::string& where, ExitStatus status) {
  ManifestCheck(manifest, where, status).run();
}

}  // namespace wmtp
