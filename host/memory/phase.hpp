// Phase: a named part of a rank's work, whose live memory and time are recorded. On a CUDA device the time is the
// device's (EventClock), not that of the calls that launch its work.
#pragma once

#include <c10/core/Event.h>

#include <deque>
#include <string>
#include <vector>

#include "base/time_use.hpp"
#include "memory/allocator.hpp"

namespace wmtp {

/// [training thread]
class Phase {
 public:
  explicit Phase(const std::string& name) : memory_(name), time_(name) {}

 private:
  MemoryPhase memory_;
  TimeScope time_;
};

/// Measures the training thread's current stream on a CUDA device with events, without blocking the host.
class EventClock final : public DeviceClock {
 public:
  void mark() override;
  std::vector<double> passed() override;

 private:
  std::deque<c10::Event> marks_;
};

}  // namespace wmtp
