#include "experiment/device_rules.hpp"

namespace wmtp {

std::vector<DeviceMisfit> device_misfits(const ParallelConfig& parallel, bool on_cuda) {
  std::vector<DeviceMisfit> misfits;
  if (parallel.cpu_offload != CpuOffload::none && !on_cuda)
    misfits.push_back({"cpu_offload", "found cpu_offload on the CPU, wanted false: everything is in host memory anyway",
                       "remove it, or train on a CUDA device"});
  const bool is_path_of_activations =
      parallel.activation_offload && parallel.optimizer_offload == OptimizerOffload::none;
  if (!parallel.offload_path.empty() && is_path_of_activations && on_cuda)
    misfits.push_back({"offload_path",
                       "offload_path applies only to optimizer_offload = \"nvme\" and to the CPU: a CUDA device "
                       "offloads activations to host memory",
                       "remove it"});
  return misfits;
}

}  // namespace wmtp
