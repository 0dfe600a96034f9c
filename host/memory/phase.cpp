#include "memory/phase.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace wmtp {

Phase::Phase(const std::string& name) : memory_(name), time_(name) {
  if (span_.isActive()) span_.before(name);
}

void EventClock::mark() {
  const c10::impl::VirtualGuardImpl device(c10::DeviceType::CUDA);
  marks_.emplace_back(c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT);  // c10's default flag records no time
  marks_.back().record(device.getStream(device.getDevice()));
}

std::vector<double> EventClock::passed() {
  std::vector<double> seconds;
  while (marks_.size() > 1 && marks_[1].query()) {
    seconds.push_back(marks_[0].elapsedTime(marks_[1]) / 1000);
    marks_.pop_front();
  }
  return seconds;
}

}  // namespace wmtp
