// The door of libwmtp_cuda: all that the engine asks of CUDA and NCCL. The engine links neither; it loads this library
// only when a run wants a CUDA device, since LibTorch's CUDA half costs every process 350 MB.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace wmtp {

class CudaBackend {
 public:
  virtual ~CudaBackend() = default;
  virtual int num_devices() = 0;
  /// Makes `device` the current one of this process, and tells engine/memory/allocator.hpp of every block that its caching
  /// allocator gives out and takes back. [before the first tensor]
  virtual void use_device(int device) = 0;
  /// An NCCL communicator. [all ranks, collective]
  virtual c10::intrusive_ptr<c10d::Backend> nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                 std::chrono::milliseconds timeout) = 0;
};

/// Loads libwmtp_cuda.so from beside the engine; never closed. Error(usage) says why when it cannot be loaded.
CudaBackend& cuda_backend();
/// Whether this machine has an NVIDIA device at all, without loading anything.
bool has_cuda_device();

}  // namespace wmtp
