#include "comm/torch/flight_record.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <fstream>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "base/text.hpp"

namespace wmtp {
namespace {

/// "14:03:59.123456", UTC.
std::string time_text(std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  const auto micros = duration_cast<microseconds>(time.time_since_epoch()).count();
  const auto of_day = micros % (int64_t{86400} * 1000000);
  return printed("%02lld:%02lld:%02lld.%06lld", static_cast<long long>(of_day / 3600000000),
                 static_cast<long long>(of_day / 60000000 % 60), static_cast<long long>(of_day / 1000000 % 60),
                 static_cast<long long>(of_day % 1000000));
}

}  // namespace

FlightRecord::FlightRecord() = default;
FlightRecord::~FlightRecord() = default;

/// A work that has run out of time calls itself completed, with an exception. Asking a device that has failed throws.
bool FlightRecord::Entry::is_complete() const {
  try {
    return has_ended && (!on_device || (on_device->isCompleted() && !on_device->exception()));
  } catch (const std::exception&) {
    return false;
  }
}

bool FlightRecord::is_reached(int64_t number) const {
  try {
    return marks_[size_t(number % capacity)]->query();
  } catch (const std::exception&) {
    return false;
  }
}

void FlightRecord::set_step(int64_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
}

int64_t FlightRecord::begin(const std::string& what, const char* operation, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[size_t(count_ % capacity)];
  entry = {what, operation, bytes, step_, Clock::now(), {}, false, false, {}};
  return count_++;
}

void FlightRecord::mark(int64_t number, c10::Device device) {
  const std::lock_guard lock(mutex_);
  std::optional<c10::Event>& event = marks_[size_t(number % capacity)];
  if (!event) event.emplace(device.type());
  event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  entries_[size_t(number % capacity)].is_marked = true;
}

void FlightRecord::end(int64_t number, c10::intrusive_ptr<c10d::Work> on_device) {
  const std::lock_guard lock(mutex_);
  if (number + capacity < count_) return;  // overwritten by newer ones
  Entry& entry = entries_[size_t(number % capacity)];
  entry.ended = Clock::now();
  entry.has_ended = true;
  entry.on_device = std::move(on_device);
}

std::string FlightRecord::describe(int64_t number) const {
  const std::lock_guard lock(mutex_);
  return description(number);
}

std::string FlightRecord::newest() const {
  const std::lock_guard lock(mutex_);
  return description(count_ - 1);
}

std::string FlightRecord::description(int64_t number) const {
  const Entry& e = entry(number);
  return (e.step > 0 ? "step " + std::to_string(e.step) + ": " : "") + e.what + " (" + e.operation + ", " +
         human_bytes(e.bytes) + ")";
}

std::optional<FlightRecord::Progress> FlightRecord::device_progress() const {
  const std::lock_guard lock(mutex_);
  std::optional<Progress> progress;
  for (int64_t number = std::max<int64_t>(0, count_ - capacity); number < count_; ++number) {
    if (!entry(number).is_marked) continue;
    if (!is_reached(number)) return Progress{progress ? progress->reached : number, description(number)};
    progress = {number + 1, ""};
  }
  return progress;
}

std::string FlightRecord::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (int64_t number = std::max<int64_t>(0, count_ - capacity); number < count_; ++number) {
    const Entry& e = entry(number);
    text += std::to_string(number) + "  " + time_text(e.begun) + "  " +
            (e.is_complete() ? time_text(e.ended) : "unfinished     ") + "  " + description(number) + "\n";
  }
  return text;
}

bool FlightRecord::write(int rank, const std::string& text) const noexcept {
  if (folder_.empty()) return false;
  try {
    std::ofstream file(folder_ / printed("flight-%04d.txt", rank));
    file << "number, start (UTC), end, collective\n" << text;
    file.close();
    return bool(file);
  } catch (...) {
    return false;
  }
}

}  // namespace wmtp
