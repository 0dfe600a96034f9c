// Utilization of the current device, from NVML, the library behind nvidia-smi. It comes with the driver and is loaded
// at run time; without it there is no figure. Types and constants: NVML API reference, nvml.h.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>

#include <array>
#include <optional>

namespace wmtp {

class Nvml {
 public:
  /// Opens the current device.
  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) return;
    const auto init = symbol<Status (*)()>(library, "nvmlInit_v2");
    const auto device_of = symbol<Status (*)(const char*, Device*)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
    rates_of_ = symbol<RatesOf>(library, "nvmlDeviceGetUtilizationRates");
    std::array<char, 32> bus_id{};
    C10_CUDA_CHECK(cudaDeviceGetPCIBusId(bus_id.data(), int(bus_id.size()), c10::cuda::current_device()));
    const bool opened =
        init && device_of && rates_of_ && init() == success && device_of(bus_id.data(), &device_) == success;
    if (!opened) device_ = nullptr;
  }

  /// Share of NVML's last sample period (1/6 s to 1 s) in which a kernel ran.
  std::optional<double> utilization() const {
    Rates rates;
    if (!device_ || rates_of_(device_, &rates) != success) return std::nullopt;
    return double(rates.gpu) / 100;
  }

 private:
  using Status = int;
  using Device = void*;
  struct Rates {
    unsigned gpu = 0, memory = 0;  // percent
  };
  using RatesOf = Status (*)(Device, Rates*);
  static constexpr Status success = 0;

  template <class Function>
  static Function symbol(void* library, const char* name) {
    return reinterpret_cast<Function>(dlsym(library, name));
  }

  Device device_ = nullptr;
  RatesOf rates_of_ = nullptr;
};

}  // namespace wmtp
