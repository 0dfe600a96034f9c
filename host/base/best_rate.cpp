#include "base/best_rate.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/time_use.hpp"

namespace wmtp {
namespace {

constexpr std::chrono::milliseconds measured_for{5};
constexpr double shortest_round = 2e-3;  // seconds; waiting for a device takes up to a hundredth of it
constexpr int at_least = 3;

}  // namespace

double best_rate(double operations, const std::function<void()>& launch, const std::function<void()>& wait) {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  const auto end = Clock::now() + measured_for;
  int64_t launches = 1;
  for (int rounds = 0; rounds < at_least || Clock::now() < end;) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < launches; ++i) launch();
    wait();
    const double seconds = seconds_since(start);
    if (seconds < shortest_round) {
      launches *= 2;
      continue;
    }
    best = std::max(best, double(launches) * operations / seconds);
    ++rounds;
  }
  return best;
}

}  // namespace wmtp
