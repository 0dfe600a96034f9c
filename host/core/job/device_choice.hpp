// The device of a rank, from [parallel] device and the devices of its host.
//
// A CUDA device is used by one rank only, because NCCL refuses two. "auto" therefore uses the CPU on a host with more
// local ranks than devices, so that every experiment runs everywhere; an explicit "cuda" is refused there.
#pragma once

#include <optional>
#include <string>

namespace wmtp {

struct DeviceQuestion {
  std::string wanted;  ///< [parallel] device
  int devices = 0;     ///< CUDA devices of this host
  int rank = 0, local_rank = 0, local_ranks = 1;
};

/// The number of this rank's CUDA device; nothing for the CPU. Error(usage) when "cuda" is not possible.
std::optional<int> choose_device(const DeviceQuestion& question);

/// A notice when "auto" leaves devices unused, otherwise empty. Equal on every rank of a host.
std::string about_unused_devices(const DeviceQuestion& question);

}  // namespace wmtp
