// Rules of [parallel] that depend on the device: checked with the file if it names the device, else as soon as the run
// has one.
#pragma once

#include <string>
#include <vector>

#include "experiment/experiment.hpp"

namespace wmtp {

/// A key that has no use on the device.
struct DeviceMisfit {
  std::string key;  ///< "cpu_offload"
  std::string found, remedy;
};
std::vector<DeviceMisfit> device_misfits(const ParallelConfig& parallel, bool on_cuda);

}  // namespace wmtp
