// Where a rank computes, from [parallel] device and what its host has. Knows no LibTorch.
//
// A rank has a CUDA device to itself: NCCL refuses two ranks on one. "auto" therefore takes the CPU on a host with more
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

/// The number of this rank's CUDA device; nothing for the CPU. Error(usage) when an explicit "cuda" cannot be had.
std::optional<int> choose_device(const DeviceQuestion& question);

/// What to tell where "auto" leaves devices unused; empty otherwise. The same on every rank of a host.
std::string about_unused_devices(const DeviceQuestion& question);

}  // namespace wmtp
