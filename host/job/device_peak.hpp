// The peak performance of CUDA devices as stated by their vendor, for perf/mfu.
#pragma once

#include <string>

#include "experiment/experiment.hpp"

namespace wmtp {

/// Dense matrix-product operations per second in this precision (fp32: without TF32) at the boost clock; 0 if the
/// device is unknown. `name`: as reported by the CUDA runtime, "NVIDIA H200". Sources: NVIDIA's data sheets and
/// architecture white papers.
double stated_peak(const std::string& name, Precision precision);

}  // namespace wmtp
