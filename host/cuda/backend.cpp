#include "cuda/backend.hpp"

#include <c10/cuda/CUDAFunctions.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace wmtp {
namespace {

class Backend final : public CudaBackend {
 public:
  int num_devices() override { return c10::cuda::device_count(); }
  void use_device(int device) override { c10::cuda::set_device(c10::DeviceIndex(device)); }
  c10::intrusive_ptr<c10d::Backend> nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                         std::chrono::milliseconds timeout) override {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = timeout;
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
  }
};

}  // namespace
}  // namespace wmtp

extern "C" __attribute__((visibility("default"))) wmtp::CudaBackend* wmtp_cuda_backend() {
  static wmtp::Backend backend;
  return &backend;
}
