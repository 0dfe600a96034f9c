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

/// Starting takes longer than a step: files are read, LibTorch is paged in.
constexpr std::chrono::seconds time_to_start{300};

at::Device choose_device(const std::string& wanted, const RankEnvironment& environment) {
  if (wanted == "cpu" || (wanted == "auto" && !has_cuda_device())) return at::kCPU;
  const int devices = cuda_backend().num_devices();
  if (devices == 0 && wanted == "auto") return at::kCPU;
  if (environment.local_rank >= devices)
    throw Error(ExitStatus::usage, "parallel.device = \"" + wanted + "\": rank " + std::to_string(environment.rank) +
                                       " wants CUDA device " + std::to_string(environment.local_rank) +
                                       ", but there are " + std::to_string(devices) +
                                       "; use fewer processes, or device = \"cpu\"");
  cuda_backend().use_device(environment.local_rank);
  count_device_memory();
  return {at::kCUDA, c10::DeviceIndex(environment.local_rank)};
}

MakeBackend channels_for(const at::Device& device, const std::string& address) {
  if (device.is_cpu()) return through_memory(gloo(address));
  return [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout) {
    return cuda_backend().nccl(store, rank, size, timeout);
  };
}

std::string address_of(const RankEnvironment& environment) {
  return environment.master_addr == "localhost" ? "127.0.0.1" : environment.master_addr;
}

/// Left alone, every rank takes all cores and they fight for them. What the user or a launcher has said stands.
void share_cores(const RankEnvironment& environment) {
  if (std::getenv("OMP_NUM_THREADS")) return;
  const int cores = int(std::max(1u, std::thread::hardware_concurrency()));
  at::set_num_threads(std::max(1, cores / std::max(1, environment.local_world_size)));
}

}  // namespace

Session::Session(const Job& job, const RankEnvironment& environment)
    : job_(job),
      environment_((install_allocator(), share_cores(environment), environment)),
      device_(choose_device(job.experiment.parallel.device, environment)),
      catalog_(job.plugin_folders),
      peers_(environment, time_to_start),
      channels_(peers_, gloo(address_of(environment)), channels_for(device_, address_of(environment)), time_to_start) {}

}  // namespace wmtp
