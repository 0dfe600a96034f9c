// What the maker of a CUDA device states that it can compute, for perf/mfu.
#pragma once

#include <string>

#include "core/experiment/experiment.hpp"

namespace wmtp {

/// Dense operations per second of matrix products in this precision, without TF32 in fp32, at the boost clock; 0 if the
/// device is not known. `name`: as the CUDA runtime gives it, "NVIDIA H200".
/// Sources: NVIDIA's data sheets and architecture white papers of the products.
double stated_peak(const std::string& name, Precision precision);

}  // namespace wmtp
