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
  /// Makes cudaStreamWaitEvent ineffective: causes races, so that a test can check that they are detected.
  bool drops_waits = number_from_environment("NULL_CUDA_DROP_WAITS", 0) != 0;
  /// The rank (RANK) whose device stops after this collective, counted from 1, so that nothing completes; -1: none.
  long hangs_on_rank = number_from_environment("NULL_CUDA_HANG_RANK", -1);
  long hangs_at = number_from_environment("NULL_CUDA_HANG_AT", 1);
  /// What a kernel that counts elements (nonzero) reports while kernels do nothing.
  long nonzero = number_from_environment("NULL_CUDA_NONZERO", 0);
  /// Folder for one PID.json per process (activity.hpp), created if missing; "": none.
  std::string report = std::getenv("NULL_CUDA_REPORT") ? std::getenv("NULL_CUDA_REPORT") : "";
};

inline const Settings& settings() {
  static const Settings all;
  return all;
}

}  // namespace null_cuda
