// Counts planned bytes like the allocator counts real ones: live bytes by category, and the peak of each phase. Also
// counts a rank's work: floating-point operations and the bytes of its collectives.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "core/model/category.hpp"

namespace wmtp {

/// The cost of offloaded master shards and activations on one rank, in bytes.
struct Offloaded {
  int64_t host = 0;                    ///< host memory, on the CPU of a file
  int64_t to_device = 0, to_host = 0;  ///< transfers per step
};

/// Bytes that a rank receives, which are as many as it sends.
struct Traffic {
  double bus = 0;      ///< from ranks of its host
  double network = 0;  ///< from ranks of other hosts; per network card if each rank has one
  Traffic& operator+=(const Traffic& other) {
    bus += other.bus;
    network += other.network;
    return *this;
  }
};

/// The work of one rank.
struct Work {
  double operations = 0;  ///< floating-point operations of matrix products and attention
  double extra = 0;       ///< those that perf/mfu does not count: repeated ones, and of frozen models
  Traffic traffic;
  Traffic exposed;  ///< the part that no product overlaps with
  /// Adds `times` times what was done since `before`.
  void repeat(const Work& before, double times) {
    const auto add = [times](double& sum, double earlier) { sum += times * (sum - earlier); };
    add(operations, before.operations);
    add(extra, before.extra);
    add(traffic.bus, before.traffic.bus);
    add(traffic.network, before.traffic.network);
    add(exposed.bus, before.exposed.bus);
    add(exposed.network, before.exposed.network);
  }
};

/// A collective between its start and its end.
struct InFlight {
  Traffic traffic;
  double started_at = 0;  ///< operations done before
};

class Ledger {
 public:
  void enter(const std::string& phase) {
    now_at_ = &phases_[phase];
    note();
  }
  void change(MemoryCategory category, int64_t bytes) {
    live_.bytes[size_t(category)] += bytes;
    live_.total += bytes;
    note();
  }
  const std::map<std::string, MemoryMoment>& phases() const { return phases_; }
  Offloaded& offloaded() { return offloaded_; }
  Work& work() { return work_; }
  void compute(double operations) { work_.operations += operations; }
  InFlight start(const Traffic& traffic) {
    work_.traffic += traffic;
    return {traffic, work_.operations};
  }
  void finish(InFlight& collective) {
    if (work_.operations == collective.started_at) work_.exposed += collective.traffic;
    collective = {};
  }

 private:
  void note() {
    if (live_.total > now_at_->total) *now_at_ = live_;
  }
  MemoryMoment live_;
  std::map<std::string, MemoryMoment> phases_;
  MemoryMoment* now_at_ = &phases_["other"];
  Offloaded offloaded_;
  Work work_;
};

/// Operations are extra during the lifetime of this object.
class ExtraOperations {
 public:
  explicit ExtraOperations(Ledger& ledger) : work_(ledger.work()), before_(work_.operations) {}
  ~ExtraOperations() { work_.extra += work_.operations - before_; }
  ExtraOperations(const ExtraOperations&) = delete;

 private:
  Work& work_;
  double before_;
};

/// Bytes that are live for the lifetime of this object, like a tensor.
class Held {
 public:
  Held() = default;
  Held(Ledger& ledger, MemoryCategory category, int64_t bytes) : ledger_(&ledger), category_(category), bytes_(bytes) {
    ledger.change(category, bytes);
  }
  Held(Held&& other) noexcept { *this = std::move(other); }
  Held& operator=(Held&& other) noexcept {
    reset();
    ledger_ = std::exchange(other.ledger_, nullptr);
    category_ = other.category_;
    bytes_ = other.bytes_;
    return *this;
  }
  ~Held() { reset(); }
  void reset() {
    if (ledger_) ledger_->change(category_, -bytes_);
    ledger_ = nullptr;
  }
  explicit operator bool() const { return ledger_ != nullptr; }

 private:
  Ledger* ledger_ = nullptr;
  MemoryCategory category_ = MemoryCategory::other;
  int64_t bytes_ = 0;
};

}  // namespace wmtp
