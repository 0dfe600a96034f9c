#include "run/session.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/error.hpp"
#include "cuda/backend.hpp"
#include "dist/memory_backend.hpp"
#include "memory/allocator.hpp"

namespace wmtp {
namespace {

at::Device choose_device(const std::string& wanted, int rank, int local_rank) {
  if (wanted == "cpu" || (wanted == "auto" && !has_cuda_device())) return at::kCPU;
  const int devices = cuda_backend().num_devices();
  if (devices == 0 && wanted == "auto") return at::kCPU;
  if (local_rank >= devices)
    throw Error(ExitStatus::usage, "parallel.device = \"" + wanted + "\": rank " + std::to_string(rank) +
                                       " wants CUDA device " + std::to_string(local_rank) +
                                       ", but there are " + std::to_string(devices) +
                                       "; use fewer processes, or device = \"cpu\"");
  cuda_backend().use_device(local_rank);
  count_device_memory();
  return {at::kCUDA, c10::DeviceIndex(local_rank)};
}

MakeBackend channels_for(const at::Device& device, const std::string& address) {
  if (device.is_cpu()) return through_memory(gloo(address));
  return [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout) {
    return cuda_backend().nccl(store, rank, size, timeout);
  };
}

/// Left alone, every rank takes all cores and they fight for them. What the user or a launcher has said stands.
void share_cores(int local_world_size) {
  if (std::getenv("OMP_NUM_THREADS")) return;
  const int cores = int(std::max(1u, std::thread::hardware_concurrency()));
  at::set_num_threads(std::max(1, cores / std::max(1, local_world_size)));
}

/// A failure is posted, so that the other ranks do not wait for this one.
at::Device prepare_device(const Job& job, Peers& peers) {
  share_cores(peers.placement().local_world_size);
  try {
    return choose_device(job.experiment.parallel.device, peers.rank(), peers.placement().local_rank);
  } catch (const Error& error) {
    peers.post_fault(error);
    throw;
  }
}

}  // namespace

std::chrono::milliseconds timeout_of(const Experiment& experiment) {
  return std::chrono::milliseconds(int64_t(experiment.parallel.timeout_seconds * 1000));
}

Session::Session(const Job& job, const RankEnvironment& environment)
    : job_(job),
      environment_((install_allocator(), environment)),
      peers_(environment, timeout_of(job.experiment)),
      device_(prepare_device(job, peers_)),
      catalog_(job.plugin_folders),
      channels_(peers_, gloo(peers_.placement().address), channels_for(device_, peers_.placement().address),
                timeout_of(job.experiment)) {}

}  // namespace wmtp
