// Session: what one rank has for as long as its process lives: its peers, its channels, its device. The stages of an
// experiment and the experiment itself run in it one after another.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <memory>

#include "core/job/job.hpp"
#include "core/plugins/catalog.hpp"
#include "engine/comm/channels.hpp"
#include "engine/comm/peers.hpp"

namespace wmtp {

/// The longest wait for another rank.
std::chrono::milliseconds timeout_of(const Experiment& experiment);

class Session {
 public:
  /// [all ranks, collective] Threads, device, connections. `peers` have met, and outlive this. Error(usage) on every
  /// rank when the device that the experiment wants is not there on one of them, or they were not started alike.
  Session(const Job& job, const RankEnvironment& environment, Peers& peers);

  const Job& job() const { return job_; }
  int rank() const { return environment_.rank; }
  int size() const { return environment_.world_size; }
  bool is_rank0() const { return environment_.rank == 0; }
  bool own_launcher() const { return environment_.own_launcher; }
  Peers& peers() { return peers_; }
  Channels& channels() { return channels_; }
  const at::Device& device() const { return device_; }
  const Catalog& catalog() const { return catalog_; }
  std::filesystem::path cache_folder() const { return job_.database.parent_path() / "cache"; }

 private:
  const Job& job_;
  RankEnvironment environment_;
  Peers& peers_;
  at::Device device_;
  Catalog catalog_;
  Channels channels_;
};

}  // namespace wmtp
