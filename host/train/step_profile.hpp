// StepProfile: a recording of one training step by LibTorch's profiler, saved as a Chrome trace. It changes no number
// of the step. A trace appears under its name complete; a crash leaves at most a draft (io/draft.hpp).
#pragma once

#include <c10/core/Device.h>

#include <filesystem>

namespace wmtp {

/// Records from the constructor on: this thread's operators and those of its backward pass; on a CUDA device also
/// kernels and copies, unless CUPTI fails, which it reports itself on stderr. At most one at a time.
class StepProfile {
 public:
  /// Initializes CUPTI, which may take seconds, before the recording begins.
  explicit StepProfile(const c10::Device& device);
  ~StepProfile();  ///< discards a recording that was not saved
  StepProfile(const StepProfile&) = delete;

  /// Ends the recording when the device has computed everything. Error(storage). [once, on the constructor's thread]
  void save(const std::filesystem::path& file);

 private:
  c10::Device device_;
  bool records_ = true;
};

}  // namespace wmtp
