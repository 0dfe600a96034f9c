// CudaBackend: the interface of libwmtp_cuda, everything that the engine uses of CUDA and NCCL. The engine links neither;
// it loads this library only for a run on a CUDA device, because LibTorch's CUDA part costs a process 350 MB.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace wmtp {

struct CudaDevice {
  std::string name;                         ///< as the CUDA runtime gives it: "NVIDIA H200"
  int major = 0, minor = 0;                 ///< compute capability
  int64_t total_bytes = 0, free_bytes = 0;  ///< of all processes, as nvidia-smi shows them
  int64_t reserved_bytes = 0;               ///< most that LibTorch's allocator has held, in use or not
};

class CudaBackend {
 public:
  virtual ~CudaBackend() = default;
  virtual int num_devices() = 0;
  /// Makes `device` this process's current one, and reports every block that its caching allocator allocates and frees
  /// to engine/memory/allocator.hpp. `deterministic`: LibTorch selects kernels that give the same bits in every run, and
  /// refuses operations that have none. [before the first tensor]
  virtual void use_device(int device, bool deterministic) = 0;
  virtual CudaDevice current_device() = 0;
  /// Share of about the last second in which the current device ran a kernel, as nvidia-smi shows it; nothing without NVML.
  virtual std::optional<double> utilization() = 0;
  /// An NCCL communicator. [all ranks, collective]
  virtual c10::intrusive_ptr<c10d::Backend> nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                 std::chrono::milliseconds timeout) = 0;
};

/// Loads libwmtp_cuda.so from the engine's folder; never closed. Error(usage), with the reason, when that fails.
CudaBackend& cuda_backend();
/// The first device, for `--device cuda`, made this process's current one. Error(usage) if the machine has none.
at::Device first_cuda_device();
/// Whether this build has libwmtp_cuda.so; loads nothing.
bool has_cuda_library();
/// Whether this machine has an NVIDIA device; loads nothing.
bool has_cuda_device();

}  // namespace wmtp
