// The allocator's books without an allocator: bytes held by category, and the moment of each phase at which most was.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "core/model/category.hpp"

namespace wmtp {

/// What parameters whose master shards lie in the host's memory cost a rank, in bytes.
struct Offloaded {
  int64_t host = 0;                    ///< held there
  int64_t to_device = 0, to_host = 0;  ///< of a step, over the bus between them
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

 private:
  void note() {
    if (live_.total > now_at_->total) *now_at_ = live_;
  }
  MemoryMoment live_;
  std::map<std::string, MemoryMoment> phases_;
  MemoryMoment* now_at_ = &phases_["other"];
  Offloaded offloaded_;
};

/// Bytes that are live while this is; as a tensor.
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
