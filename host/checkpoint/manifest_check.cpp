// What a manifest must say to be believed, whoever wrote it.
#include <algorithm>

#include "checkpoint/manifest_sums.hpp"
#include "checkpoint/messages.hpp"
#include "checkpoint/safetensors_folder.hpp"

namespace wmtp {
namespace {

constexpr size_t max_dimensions = 32;

class ManifestCheck {
 public:
  ManifestCheck(const Manifest& manifest, const std::string& where, ExitStatus status)
      : manifest_(manifest), where_(where), status_(status) {}

  void run() const {
    if (manifest_.step < 0) refuse("step is " + std::to_string(manifest_.step) + "; wanted 0 or more");
    if (manifest_.world_size < 1 || manifest_.world_size > 1'000'000) {
      refuse("world_size is " + std::to_string(manifest_.world_size) + "; wanted 1 to 1000000");
    }
    if (manifest_.kind != "resume" && manifest_.kind != "model" && manifest_.kind != "adapter") {
      refuse("kind is " + printable(manifest_.kind) + "; wanted \"resume\", \"model\" or \"adapter\"");
    }
    for (const auto& [name, bytes] : manifest_.files) {
      if (!is_plain_file_name(name) || name == "manifest.json") {
        refuse("files names " + printable(name) + "; wanted names of files beside the manifest");
      }
      if (bytes < 0) refuse("files: " + printable(name) + " has " + std::to_string(bytes) + " bytes; wanted 0 or more");
    }
    std::map<std::string, std::vector<const Slice*>> tensors;
    for (const Slice& slice : manifest_.slices) {
      check_slice(slice);
      tensors[slice.tensor].push_back(&slice);
    }
    for (auto& [tensor, slices] : tensors) check_cover(slices);
  }

 private:
  void check_slice(const Slice& slice) const {
    if (slice.tensor.empty() || slice.entry.empty()) refuse("a slice has an empty tensor or entry name");
    if (!manifest_.files.contains(slice.file)) {
      refuse(slice, "lies in the file " + printable(slice.file) + ", which files does not list");
    }
    const int64_t elements = count_elements(slice);
    if (slice.begin < 0 || slice.begin > slice.end || slice.end > elements) {
      refuse(slice, "is [" + std::to_string(slice.begin) + ", " + std::to_string(slice.end) + ") of " +
                        std::to_string(elements) + " elements; wanted a range inside the tensor");
    }
  }

  int64_t count_elements(const Slice& slice) const {
    if (slice.shape.size() > max_dimensions) refuse(slice, "has more than 32 dimensions");
    const bool empty = std::find(slice.shape.begin(), slice.shape.end(), 0) != slice.shape.end();
    int64_t elements = empty ? 0 : 1;
    for (const int64_t length : slice.shape) {
      if (length < 0 || (!empty && __builtin_mul_overflow(elements, length, &elements))) {
        refuse(slice, "has a shape that is negative or too large");
      }
    }
    return elements;
  }

  void check_cover(std::vector<const Slice*>& slices) const {
    std::sort(slices.begin(), slices.end(), [](const Slice* a, const Slice* b) {
      return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
    });
    int64_t covered = 0;
    for (const Slice* slice : slices) {
      if (slice->shape != slices.front()->shape) refuse(*slice, "has another shape than the tensor's other slices");
      if (slice->begin != covered) {
        refuse(*slice, "begins at element " + std::to_string(slice->begin) + "; wanted " + std::to_string(covered) +
                           ", where the one before ends");
      }
      covered = slice->end;
    }
    if (const int64_t elements = count_elements(*slices.front()); covered != elements) {
      refuse(*slices.back(), "ends at element " + std::to_string(covered) + " of " + std::to_string(elements) +
                                 "; wanted slices that cover the tensor");
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
