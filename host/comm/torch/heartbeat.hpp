// Heartbeat: tells the other ranks that this process runs, however long its work takes. A rank that is stopped, or
// whose host is gone without closing its connections, stays silent; one that computes, or writes a large file, does
// not.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "comm/torch/c10d_names.hpp"

namespace wmtp {

class Heartbeat {
 public:
  using Milliseconds = std::chrono::milliseconds;

  /// Counts in the store from now on, several times within `timeout`, on a thread of its own.
  Heartbeat(c10::intrusive_ptr<c10d::Store> store, int rank, Milliseconds timeout);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;

 private:
  void beat();

  c10::intrusive_ptr<c10d::Store> store_;
  std::string key_;
  Milliseconds every_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stopped_ = false;
  std::thread thread_;
};

/// How long another rank has been silent, as seen by a rank that asks repeatedly.
class HeartbeatMonitor {
 public:
  HeartbeatMonitor(c10d::Store& store, int rank) : store_(store), rank_(rank) {}
  /// Time in which this process was stopped itself does not count. Throws if the store is gone.
  std::chrono::milliseconds now();

 private:
  using Clock = std::chrono::steady_clock;
  c10d::Store& store_;
  int rank_;
  int64_t beats_ = -1;
  Clock::time_point checked_ = Clock::now();
  Clock::duration silent_{0};
};

}  // namespace wmtp
