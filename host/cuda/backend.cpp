// CudaBackend with LibTorch's caching allocator and NCCL; exported as wmtp_cuda_backend.
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "comm/torch/cuda_backend.hpp"
#include "cuda/nvml.hpp"
#include "cuda/rows.hpp"
#include "memory/allocator.hpp"

namespace wmtp {
namespace {

using c10::CachingDeviceAllocator::TraceEntry;

/// What the device has in use, each time that LibTorch's allocator takes memory from it or is about to return some.
/// [under the allocator's lock]
class HeldMemory {
 public:
  void follow(const TraceEntry& event) {
    const bool grows = event.action_ == TraceEntry::SEGMENT_ALLOC || event.action_ == TraceEntry::SEGMENT_MAP;
    const bool shrinks = event.action_ == TraceEntry::SEGMENT_FREE || event.action_ == TraceEntry::SEGMENT_UNMAP;
    if (!grows && !shrinks) return;
    const auto bytes = int64_t(event.size_);
    reserved_ += grows ? bytes : -bytes;
    size_t free = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    device_memory_changed({reserved_, int64_t(total - free) - (shrinks ? bytes : 0)});
  }

 private:
  int64_t reserved_ = 0;
};

class Backend final : public CudaBackend {
 public:
  int num_devices() override { return c10::cuda::device_count(); }
  void use_device(int device, bool deterministic) override {
    static CudaRows rows;
    static HeldMemory held;
    kernels::set_device_rows(&rows);
    if (deterministic) select_deterministic_kernels();
    c10::cuda::set_device(c10::DeviceIndex(device));
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // initializes the allocator for the devices
    using c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker;
    attachAllocatorTraceTracker([](const TraceEntry& event) { held.follow(event); });
    allocate_workspaces(at::Device(at::kCUDA, c10::DeviceIndex(device)));
    attachAllocatorTraceTracker([](const TraceEntry& event) {
      const auto* address = reinterpret_cast<const void*>(event.addr_);
      if (event.action_ == TraceEntry::ALLOC) device_block_allocated(address, int64_t(event.size_));
      if (event.action_ == TraceEntry::FREE_COMPLETED) device_block_freed(address);
    });
  }
  CudaDevice current_device() override {
    const cudaDeviceProp& properties = *at::cuda::getCurrentDeviceProperties();
    size_t free = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
    return {properties.name, properties.major, properties.minor,
            int64_t(total),  int64_t(free),    stats.reserved_bytes[0].peak};
  }
  std::optional<double> utilization() override {
    static const Nvml nvml;
    return nvml.utilization();
  }
  c10::intrusive_ptr<c10d::Backend> nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                         std::chrono::milliseconds timeout) override {
    // A lost rank ends the job at once, not after a minute spent writing traces of all ranks to files.
    setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "0", /*overwrite=*/0);
    setenv("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "100", /*overwrite=*/0);
    // A rank has several communicators. Without this setting their kernels may start in different orders on different
    // ranks and wait for each other (NCCL 2.26 and later).
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
    auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);  // a step waits for them
    options->timeout = timeout;
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
  }
  c10::intrusive_ptr<c10d::Work> without_tensors(const c10d::Work& work) override {
    using Work = c10d::ProcessGroupNCCL::WorkNCCL;
    return c10::make_intrusive<Work>(dynamic_cast<const Work&>(work));  // its copy constructor leaves out the outputs
  }

 private:
  /// cuBLAS keeps a workspace for each thread that multiplies: this one and autograd's. Allocated before blocks are
  /// counted, because they are a library's scratch memory, whose size depends on the device.
  static void allocate_workspaces(at::Device device) {
    const at::Tensor x = at::ones({16, 16}, device).requires_grad_(true);
    torch::autograd::grad({at::mm(x, x)}, {x}, {at::ones_like(x)});
  }
  static void select_deterministic_kernels() {
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // read when cuBLAS is initialized
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);  // for debugging: we read no such memory
    at::globalContext().setDeterministicCuDNN(true);
  }
};

}  // namespace
}  // namespace wmtp

extern "C" __attribute__((visibility("default"))) wmtp::CudaBackend* wmtp_cuda_backend() {
  static wmtp::Backend backend;
  return &backend;
}
