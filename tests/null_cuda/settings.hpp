// Settings of the null device, from the environment.
#pragma once

#include <cstdlib>
#include <string>

namespace null_cuda {

inline long number_from_environment(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atol(text) : otherwise;
}

struct Settings {
  int devices = int(number_from_environment("NULL_CUDA_DEVICES", 1));
  /// Memory of each device in MiB; an allocation beyond it fails.
  long megabytes = number_from_environment("NULL_CUDA_MEGABYTES", 4096);
  /// Whether ATen's CUDA kernels compute, on the CPU; otherwise they are counted and do nothing.
  bool computes = number_from_environment("NULL_CUDA_COMPUTES", 1) != 0;
  /// Without effect: cudaStreamWaitEvent. Makes races, so that a test can see that they are found.
  bool drops_waits = number_from_environment("NULL_CUDA_DROP_WAITS", 0) != 0;
  /// On this rank (RANK), or on none, the device stops at this collective, counted from 1: nothing completes any more.
  long hangs_on_rank = number_from_environment("NULL_CUDA_HANG_RANK", -1);
  long hangs_at = number_from_environment("NULL_CUDA_HANG_AT", 1);
  /// What a kernel that counts elements (nonzero) reports while kernels do nothing.
  long nonzero = number_from_environment("NULL_CUDA_NONZERO", 0);
  /// Folder, created when it is missing, for one PID.json of each process (activity.hpp); "": none.
  std::string report = std::getenv("NULL_CUDA_REPORT") ? std::getenv("NULL_CUDA_REPORT") : "";
};

inline const Settings& settings() {
  static const Settings all;
  return all;
}

}  // namespace null_cuda
