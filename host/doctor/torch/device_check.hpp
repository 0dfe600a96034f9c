// `doctor --device cuda`: whether this machine's first CUDA device computes the same as the CPU, reproducibly, and how
// fast. Takes some seconds.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "job/engine_requests.hpp"

namespace wmtp {

/// In order: the device, each kernel in each precision, attention's kernel, rates, behavior when memory is full, NCCL.
/// Error(usage) without a usable device. [a process that does nothing else]
std::vector<DeviceCheck> check_device();

struct DeviceRate {
  std::string what;  ///< "norm speed"
  /// "forward 3100 GB/s, backward 2900 GB/s (74%, 69% of a copy on the device)" [may throw: out of memory]
  std::function<std::string(const at::Device&)> text;
};
/// Products, copies, and each of our kernels in bf16 (device_rates.cpp). A kernel is rated by the bytes that it must
/// move: each input read once, each output written once. So is the copy that it is compared with.
const std::vector<DeviceRate>& device_rates();

}  // namespace wmtp
