// Phase: a part of what a rank does; the memory that is live in it and the time that it takes are told by its name.
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
