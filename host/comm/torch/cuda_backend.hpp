// CudaBackend: the interface of libwmtp_cuda, with everything that the engine uses of CUDA and NCCL. The engine links
// neither; it loads this library only for runs on a CUDA device, because LibTorch's CUDA part costs 350 MB per process.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <optional>
#include <string>

#include "comm/torch/c10d_names.hpp"

namespace wmtp {

struct CudaDevice {
  std::string name;                         ///< as reported by the CUDA runtime: "NVIDIA H200"
  int major = 0, minor = 0;                 ///< compute capability
  int64_t total_bytes = 0, free_bytes = 0;  ///< over all processes, as in nvidia-smi
  int64_t reserved_bytes = 0;               ///< peak held by LibTorch's allocator, in use or cached
};

class CudaBackend {
 public:
  virtual ~CudaBackend() = default;
  virtual int num_devices() = 0;
  /// Makes `device` this process's current device, and reports every block that its caching allocator allocates and
  /// frees to memory/allocator.hpp. `deterministic`: LibTorch selects kernels that are bitwise reproducible, and
  /// refuses operations without one. [before the first tensor]
  virtual void use_device(int device, bool deterministic) = 0;
  virtual CudaDevice current_device() = 0;
  /// Share of about the last second in which the current device ran a kernel, as nvidia-smi shows it; nothing without
  /// NVML.
  virtual std::optional<double> utilization() = 0;
  /// An NCCL communicator. [all ranks, collective]
  virtual c10::intrusive_ptr<c10d::Backend> nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                 std::chrono::milliseconds timeout) = 0;
  /// The state of a collective of such a communicator, without its tensors. NCCL's own work holds the output, in a run
  /// the gathered parameters, as long as it exists.
  virtual c10::intrusive_ptr<c10d::Work> without_tensors(const c10d::Work& work) = 0;
};

/// Loads libwmtp_cuda.so from the engine's folder; never closes it. Error(usage) with the reason if that fails.
CudaBackend& cuda_backend();
/// The first device, for `--device cuda`, made this process's current one. Error(usage) if the machine has none.
at::Device first_cuda_device();
/// Whether this build has libwmtp_cuda.so; loads nothing.
bool has_cuda_library();
/// Whether this machine has an NVIDIA device; loads nothing.
bool has_cuda_device();

}  // namespace wmtp
