// Counts planned bytes like the allocator counts real ones: live bytes by category, and the peak of each phase. Also
// counts a rank's work: floating-point operations and the bytes of its collectives, and its seconds if rates are known.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
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

/// What one rank does in a second.
struct Rates {
  double operations = 0;
  double bus = 0, network = 0;  ///< bytes received; links that are infinitely fast take no time
  /// Computing time per byte of collectives between hosts, which also send bytes of `bus` through sockets.
  double socket_seconds = 0;
  double seconds(const Traffic& traffic) const { return std::max(traffic.bus / bus, traffic.network / network); }
};

/// The work of one rank.
struct Work {
  double seconds = 0;     ///< since the step began; 0 without rates
  double operations = 0;  ///< floating-point operations of matrix products and attention
  double extra = 0;       ///< those that perf/mfu does not count: repeated ones, and of frozen models
  Traffic traffic;
  /// Adds `times` times what was done since `before`.
  void repeat(const Work& before, double times) {
    const auto add = [times](double& sum, double earlier) { sum += times * (sum - earlier); };
    add(seconds, before.seconds);
    add(operations, before.operations);
    add(extra, before.extra);
    add(traffic.bus, before.traffic.bus);
    add(traffic.network, before.traffic.network);
  }
};

/// A collective between its start and its end.
struct InFlight {
  double ends_at = 0;  ///< in seconds since the step began; 0 without rates
};

class Ledger {
 public:
  explicit Ledger(const std::optional<Rates>& rates = {}) : rates_(rates) {}
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
  void compute(double operations) {
    work_.operations += operations;
    if (rates_) work_.seconds += operations / rates_->operations;
  }
  /// On each link, collectives follow one another.
  InFlight start(const Traffic& traffic) {
    work_.traffic += traffic;
    if (!rates_) return {};
    if (traffic.network > 0) work_.seconds += (traffic.bus + traffic.network) * rates_->socket_seconds;
    const auto end = [this](double& free_at, double seconds) {
      return seconds > 0 ? free_at = std::max(free_at, work_.seconds) + seconds : 0;
    };
    const double bus = end(bus_free_at_, traffic.bus / rates_->bus);
    return {std::max(bus, end(network_free_at_, traffic.network / rates_->network))};
  }
  void finish(InFlight& collective) {
    work_.seconds = std::max(work_.seconds, collective.ends_at);
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
  std::optional<Rates> rates_;
  double bus_free_at_ = 0, network_free_at_ = 0;  ///< in seconds since the step began
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
