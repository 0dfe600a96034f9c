#include "job/device_choice.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {
std::optional<int> choose_device(const DeviceRequest& q) {
  if (q.wanted == DeviceChoice::cpu || (q.wanted == DeviceChoice::automatic && q.local_ranks > q.devices))
    return std::nullopt;
  if (q.local_rank >= q.devices)
    throw Error(ExitStatus::usage, "parallel.device = \"" + std::string(to_string(q.wanted)) + "\": rank " +
                                       std::to_string(q.rank) + " wants CUDA device " + std::to_string(q.local_rank) +
                                       ", this host has " + counted(q.devices, "CUDA device") +
                                       "; use fewer processes, or device = \"cpu\"");
  return q.local_rank;
}

std::string unused_devices_notice(const DeviceRequest& q) {
  if (q.wanted != DeviceChoice::automatic || q.devices == 0 || q.local_ranks <= q.devices) return "";
  return "[parallel] device = \"auto\": " + counted(q.local_ranks, "process", "es") + " on this host and " +
         counted(q.devices, "CUDA device") +
         ": training on the CPU, because processes cannot share a device; for GPU training use " +
         (q.devices == 1 ? "--nproc 1" : "at most --nproc " + std::to_string(q.devices));
}

}  // namespace wmtp
