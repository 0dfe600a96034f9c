// Chooses the device of a rank from [parallel] device and the devices of its host.
//
// A CUDA device serves one rank only, because NCCL refuses two. "auto" therefore selects the CPU on a host with more
// local ranks than devices, so that every experiment runs everywhere; an explicit "cuda" is refused there.
#pragma once

#include <optional>
#include <string>

#include "experiment/experiment.hpp"

namespace wmtp {

struct DeviceRequest {
  DeviceChoice wanted = DeviceChoice::automatic;  ///< [parallel] device
  int devices = 0;                                ///< CUDA devices of this host
  int rank = 0, local_rank = 0, local_ranks = 1;
};

/// The index of this rank's CUDA device; nullopt for the CPU. Error(usage) if "cuda" is impossible.
std::optional<int> choose_device(const DeviceRequest& device_request);

/// A notice if "auto" leaves devices unused, otherwise empty. The same on every rank of a host.
std::string unused_devices_notice(const DeviceRequest& device_request);

}  // namespace wmtp
