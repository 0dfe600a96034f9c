// Session: one rank's peers, channels and device, for the lifetime of its process. The stages of an experiment and then
// the experiment run in it.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <memory>

#include "base/error.hpp"
#include "comm/torch/channels.hpp"
#include "comm/torch/file_writers.hpp"
#include "comm/torch/peers.hpp"
#include "job/job_request.hpp"
#include "log/run_folders.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {

std::chrono::milliseconds peer_timeout(const Experiment& experiment);

/// Gives this process its share of the cores for computing, as one of that many on this host; LibTorch would use every
/// core of the machine. OMP_NUM_THREADS, set by the user, takes precedence. std::system_error if the system allows
/// fewer threads.
/// [before anything is computed]
void share_cores(int local_world_size);

class Session {
 public:
  /// [all ranks, collective] Sets up threads, device and connections. `peers` have met and must outlive this object.
  /// Error(usage) on every rank if one of them lacks the experiment's device, or if the ranks were started differently.
  /// Error(storage) on every rank if a host cannot write into the folder of the log.
  Session(const Job& job, const RankEnvironment& environment, Peers& peers);

  const Job& job() const { return job_; }
  int rank() const { return environment_.rank; }
  int size() const { return environment_.world_size; }
  /// How many groups of ranks read different sequences: the degree of data parallelism.
  int data_ranks() const { return channels_.section_channels().data_ranks(); }
  bool is_rank0() const { return environment_.rank == 0; }
  bool own_launcher() const { return environment_.own_launcher; }
  Peers& peers() const { return peers_; }
  Channels& channels() { return channels_; }
  /// Of the ranks with the same part of the model (parallel.pipeline).
  Channels& section_channels() { return channels_.section_channels(); }
  const at::Device& device() const { return device_; }
  /// Of the folder of runs and caches.
  const FileWriters& writers() const { return writers_; }
  bool is_writer() const { return writers_.writer_for(rank()) == rank(); }
  const Catalog& catalog() const { return catalog_; }
  std::filesystem::path cache_folder() const { return cache_folder_path(job_.database); }

 private:
  const Job& job_;
  RankEnvironment environment_;
  Peers& peers_;
  at::Device device_;
  Catalog catalog_;
  Channels channels_;
  FileWriters writers_;
};

}  // namespace wmtp
