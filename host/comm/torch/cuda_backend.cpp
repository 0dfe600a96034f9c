#include "comm/torch/cuda_backend.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "base/error.hpp"
#include "base/installation.hpp"

namespace wmtp {
namespace {

std::filesystem::path cuda_library() { return library_folder() / "libwmtp_cuda.so"; }

}  // namespace

CudaBackend& cuda_backend() {
  static CudaBackend* backend = [] {
    const auto file = cuda_library();
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!library)
      throw Error(ExitStatus::usage,
                  "parallel.device = \"cuda\": the CUDA backend cannot be loaded: " + std::string(dlerror()) +
                      "; it is only built if LibTorch includes CUDA libraries and headers");
    const auto entry = reinterpret_cast<CudaBackend* (*)()>(dlsym(library, "wmtp_cuda_backend"));
    if (!entry) throw Error(ExitStatus::bug, file.string() + " does not export wmtp_cuda_backend");
    return entry();
  }();
  return *backend;
}

at::Device first_cuda_device() {
  if (cuda_backend().num_devices() == 0)
    throw Error(ExitStatus::usage, "--device cuda: this machine has no CUDA device");
  cuda_backend().use_device(0, /*deterministic=*/true);
  return {at::kCUDA, 0};
}

bool has_cuda_library() { return std::filesystem::exists(cuda_library()); }

bool has_cuda_device() { return std::filesystem::exists("/dev/nvidiactl"); }

}  // namespace wmtp
