#include "base/time_use.hpp"

#include <ctime>
#include <deque>
#include <utility>

namespace wmtp {
namespace {

using Clock = std::chrono::steady_clock;

struct Account {
  std::map<std::string, double> seconds{{"other", 0.0}};  // std::map: `current` stays valid
  double* current = &seconds.begin()->second;
  Clock::time_point since = Clock::now();
  DeviceClock* device = nullptr;
  std::deque<double*> unmeasured;  ///< between device marks that have not been reached

  /// Returns the previous one.
  double* change_to(double* next) {
    if (device) {
      device->mark();
      unmeasured.push_back(current);
      return std::exchange(current, next);
    }
    const Clock::time_point now = Clock::now();
    *current += std::chrono::duration<double>(now - since).count();
    since = now;
    return std::exchange(current, next);
  }

  void bring_up_to_date() {
    change_to(current);
    if (!device) return;
    for (const double seconds : device->passed()) {
      *unmeasured.front() += seconds;
      unmeasured.pop_front();
    }
  }
};

Account& account() {
  thread_local Account account;
  return account;
}

}  // namespace

TimeScope::TimeScope(const std::string& name)
    : previous_(account().change_to(&account().seconds.try_emplace(name).first->second)) {}
TimeScope::~TimeScope() { account().change_to(previous_); }

void use_device_clock(DeviceClock& clock) {
  account().bring_up_to_date();
  account().device = &clock;
  clock.mark();
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

std::map<std::string, double> time_used() {
  account().bring_up_to_date();
  return account().seconds;
}

double time_used(const std::string& name) {
  account().bring_up_to_date();
  const auto found = account().seconds.find(name);
  return found == account().seconds.end() ? 0.0 : found->second;
}

void reset_time_used() {
  account().bring_up_to_date();
  for (auto& [name, seconds] : account().seconds) seconds = 0;
}

}  // namespace wmtp
