#include "memory/memory_stats.hpp"

#include <algorithm>

namespace wmtp {

void MemoryStats::allocated(MemoryCategory category, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  int64_t& live = usage_.live[size_t(category)];
  live += bytes;
  usage_.live_total += bytes;
  int64_t& peak = usage_.peak[size_t(category)];
  peak = std::max(peak, live);
  usage_.peak_total = std::max(usage_.peak_total, usage_.live_total);
  usage_.largest_block = std::max(usage_.largest_block, bytes);
  if (usage_.live_total > snapshot_->total) *snapshot_ = {usage_.live, usage_.live_total};
}

void MemoryStats::freed(MemoryCategory category, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  usage_.live[size_t(category)] -= bytes;
  usage_.live_total -= bytes;
}

void MemoryStats::device_holds(const DeviceMemory& now) {
  const std::lock_guard lock(mutex_);
  device_ = now;
  raise_device_peak();
}

MemoryUsage MemoryStats::usage() {
  const std::lock_guard lock(mutex_);
  return usage_;
}

void MemoryStats::reset_peak() {
  const std::lock_guard lock(mutex_);
  usage_.peak = usage_.live;
  usage_.peak_total = usage_.live_total;
  usage_.largest_block = 0;
  usage_.phases.clear();
  usage_.device_phases.clear();
  begin(std::string(phase_));
}

std::string MemoryStats::enter(const std::string& phase) {
  const std::lock_guard lock(mutex_);
  std::string previous = phase_;
  begin(phase);
  return previous;
}

/// Bytes that are live when a phase begins or resumes count towards it.
void MemoryStats::begin(const std::string& phase) {
  const auto place = usage_.phases.try_emplace(phase).first;
  phase_ = place->first;
  snapshot_ = &place->second;
  if (usage_.live_total > snapshot_->total) *snapshot_ = {usage_.live, usage_.live_total};
  raise_device_peak();
}

void MemoryStats::raise_device_peak() {
  if (!device_) return;
  DeviceMemory& peak = usage_.device_phases[phase_];
  peak.reserved = std::max(peak.reserved, device_->reserved);
  peak.used = std::max(peak.used, device_->used);
}

}  // namespace wmtp
