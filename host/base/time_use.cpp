#include "base/time_use.hpp"

#include <utility>

namespace wmtp {
namespace {

using Clock = std::chrono::steady_clock;

struct Account {
  std::map<std::string, double> seconds{{"other", 0.0}};  // std::map: `current` stays valid
  double* current = &seconds.begin()->second;
  Clock::time_point since = Clock::now();

  /// Returns the previous one.
  double* change_to(double* next) {
    const Clock::time_point now = Clock::now();
    *current += std::chrono::duration<double>(now - since).count();
    since = now;
    return std::exchange(current, next);
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

std::map<std::string, double> time_used() {
  account().change_to(account().current);
  return account().seconds;
}

double time_used(const std::string& name) {
  account().change_to(account().current);
  const auto found = account().seconds.find(name);
  return found == account().seconds.end() ? 0.0 : found->second;
}

void forget_time_used() {
  account().change_to(account().current);
  for (auto& [name, seconds] : account().seconds) seconds = 0;
}

}  // namespace wmtp
