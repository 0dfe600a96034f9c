#include "train/session.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/environment.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/system_limits.hpp"
#include "base/text.hpp"
#include "comm/torch/collective_checker.hpp"
#include "comm/torch/cuda_backend.hpp"
#include "comm/torch/shared_memory_backend.hpp"
#include "job/device_choice.hpp"
#include "memory/allocator.hpp"
#include "memory/caught_error.hpp"
#include "memory/phase.hpp"

namespace wmtp {
namespace {

at::Device choose_device(const ParallelConfig& parallel, const Peers& peers) {
  const DeviceChoice wanted = parallel.device;
  if (wanted == DeviceChoice::cpu || (wanted == DeviceChoice::automatic && !has_cuda_device())) return at::kCPU;
  const Placement& placement = peers.placement();
  const DeviceRequest device_request{wanted, cuda_backend().num_devices(), peers.rank(), placement.local_rank,
                                     placement.local_world_size};
  const auto device = choose_device(device_request);
  if (!device) {
    if (const std::string text = unused_devices_notice(device_request); peers.rank() == 0 && !text.empty())
      log_info(text);
    return at::kCPU;
  }
  cuda_backend().use_device(*device, parallel.deterministic);
  if (peers.rank() == 0 && !parallel.deterministic)
    log_info("[parallel] deterministic = false: a repeated or resumed run differs in the last bits");
  count_device_memory();
  static EventClock clock;
  use_device_clock(clock);
  return {at::kCUDA, c10::DeviceIndex(*device)};
}

MakeBackend channels_for(const at::Device& device, const RankEnvironment& environment, const Placement& placement) {
  if (device.is_cpu()) return shared_memory_or(gloo(placement.address));
  if (const std::string interface = nccl_interface(environment, placement); !interface.empty())
    setenv("NCCL_SOCKET_IFNAME", interface.c_str(), /*overwrite=*/1);
  return [](const c10::intrusive_ptr<c10d::Store>& store, const RankAxis& axis, std::chrono::milliseconds timeout) {
    return cuda_backend().nccl(store, axis.rank, axis.size, timeout);
  };
}

/// Reports a failure on one rank, and differing settings, before the ranks wait for each other in a channel.
at::Device prepare_device(const Job& job, Peers& peers) {
  share_cores(peers.placement().local_world_size);
  at::Device device = at::kCPU;
  std::optional<Error> failure;
  try {
    device = choose_device(job.experiment.parallel, peers);
  } catch (...) {
    failure = caught_error();
  }
  peers.rethrow_on_all_ranks("preparing the device", failure);
  const auto yes_or_no = [](bool yes) { return std::string(yes ? "yes" : "no"); };
  peers.check_settings({{"--resume", to_string(job.resume)},
                        {"WMTP_CHECK_COLLECTIVES (or its default)", yes_or_no(collectives_are_checked())}});
  return device;
}

void log_writers(const FileWriters& writers, const std::vector<RankLocation>& places) {
  if (writers.is_shared_folder()) return;
  std::vector<std::string> hosts;
  for (size_t rank = 1; rank < places.size(); ++rank)
    if (writers.writer_for(int(rank)) == int(rank)) hosts.push_back(places[rank].host_name());
  log_info("no shared file system: " + join_names(hosts) + " and " + places[0].host_name() +
           " each prepare the data and keep their ranks' files of a checkpoint; the log and the final model are on " +
           places[0].host_name() + " only");
}

}  // namespace

std::chrono::milliseconds peer_timeout(const Experiment& experiment) {
  return std::chrono::milliseconds(int64_t(experiment.parallel.timeout_seconds * 1000));
}

void share_cores(int local_world_size) {
  constexpr int pools = 2;  // OpenMP's, and one that LibTorch keeps beside it
  const std::string chosen = environment_value("OMP_NUM_THREADS");
  const int threads =
      chosen.empty() ? std::max(1, usable_cores() / std::max(1, local_world_size)) : std::atoi(chosen.c_str());
  check_threads(pools * (threads - 1));
  if (chosen.empty()) at::set_num_threads(threads);
}

Session::Session(const Job& job, const RankEnvironment& environment, Peers& peers)
    : job_(job),
      environment_(environment),
      peers_(peers),
      device_(prepare_device(job, peers_)),
      catalog_(job.plugin_folders),
      channels_(peers_, gloo(peers_.placement().address), channels_for(device_, environment, peers_.placement()),
                peer_timeout(job.experiment)),
      writers_(peers_, std::filesystem::absolute(job.database).parent_path()) {
  if (is_rank0()) log_writers(writers_, peers_.locations());
}

}  // namespace wmtp
