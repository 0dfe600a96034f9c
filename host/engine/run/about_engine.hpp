// What the engine is made of and runs on, for `doctor`.
#pragma once

#include <string>

namespace wmtp {

/// JSON: {"libtorch": version, "cpu": what LibTorch's kernels use, "bf16": how its products are computed, "threads": n,
/// "cuda": what is known of it}. Loads the CUDA backend where the machine has a device.
std::string about_engine();

}  // namespace wmtp
