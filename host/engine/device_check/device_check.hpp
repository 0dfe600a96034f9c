// `doctor --device cuda`: whether this machine's first CUDA device computes the same as the CPU, reproducibly, and how
// fast. Takes some seconds.
#pragma once

#include <vector>

#include "core/job/engine_requests.hpp"

namespace wmtp {

/// In order: the device, each kernel in each precision, attention's kernel, rates, behavior when memory is full, NCCL.
/// Error(usage) without a usable device. [a process that does nothing else]
std::vector<DeviceCheck> check_device();

}  // namespace wmtp
