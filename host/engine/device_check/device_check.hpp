// `doctor --device cuda`: whether this machine's first CUDA device computes what the CPU does, the same bits every time,
// and how fast. Takes some seconds.
#pragma once

#include <vector>

#include "core/job/engine_requests.hpp"

namespace wmtp {

/// In this order: the device, each kernel in each precision, attention's kernel, rates, the answer to a full device, NCCL.
/// Error(usage) without a usable device. [a process without other work]
std::vector<DeviceCheck> check_device();

}  // namespace wmtp
