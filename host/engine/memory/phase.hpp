// Phase: a named part of a rank's work, whose live memory and time are recorded.
#pragma once

#include <string>

#include "base/time_use.hpp"
#include "engine/memory/allocator.hpp"

namespace wmtp {

/// [training thread]
class Phase {
 public:
  explicit Phase(const std::string& name) : memory_(name), time_(name) {}

 private:
  MemoryPhase memory_;
  TimeScope time_;
};

}  // namespace wmtp
