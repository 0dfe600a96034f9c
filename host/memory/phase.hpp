// Phase: a named part of a rank's work, whose live memory and time are recorded, and which is a span of a profiled
// step. On a CUDA device the time is the device's (EventClock), not that of the calls that launch its work.
#pragma once

#include <ATen/record_function.h>
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
  explicit Phase(const std::string& name);

 private:
  MemoryPhase memory_;
  TimeScope time_;
  at::RecordFunction span_{at::RecordScope::USER_SCOPE};  ///< records nothing unless a profiler listens
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
