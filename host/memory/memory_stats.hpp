// MemoryStats: bytes of live tensors by category, and the peak of each phase.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/memory_category.hpp"

namespace wmtp {

/// Of a device: what its caching allocator holds, in use or not, and what all processes use.
struct DeviceMemory {
  int64_t reserved = 0, used = 0;  ///< bytes
};

struct MemoryUsage {
  std::array<int64_t, num_memory_categories> live{};  ///< bytes now
  std::array<int64_t, num_memory_categories> peak{};  ///< of each category separately since reset_peak
  int64_t live_total = 0;
  int64_t peak_total = 0;     ///< of the sum
  int64_t largest_block = 0;  ///< largest single request since reset_peak
  /// Each phase's snapshot with the most live bytes since reset_peak. Outside all phases the phase is "other".
  std::map<std::string, MemorySnapshot> phases;
  std::map<std::string, DeviceMemory> device_phases;  ///< the maximum of each in those phases; empty without a device
};

/// [any thread]
class MemoryStats {
 public:
  void allocated(MemoryCategory category, int64_t bytes);
  void freed(MemoryCategory category, int64_t bytes);
  /// From now on the device has this in use.
  void device_holds(const DeviceMemory& now);
  MemoryUsage usage();
  void reset_peak();
  /// Begins a phase; returns the name of the previous one.
  std::string enter(const std::string& phase);

 private:
  void begin(const std::string& phase);
  void raise_device_peak();

  std::mutex mutex_;
  MemoryUsage usage_{.phases = {{"other", {}}}, .device_phases = {}};
  std::string phase_ = "other";
  std::optional<DeviceMemory> device_;
  MemorySnapshot* snapshot_ = &usage_.phases.begin()->second;  ///< of the phase
};

}  // namespace wmtp
