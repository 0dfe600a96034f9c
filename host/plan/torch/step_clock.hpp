// StepClock: the work of a planned step and its seconds: operations advance the clock, collectives follow one another
// on each link, and the clock jumps to a collective's end where the engine waits for it.
#pragma once

#include <algorithm>
#include <optional>

#include "plan/step_question.hpp"

namespace wmtp {

class StepClock {
 public:
  explicit StepClock(const std::optional<Rates>& rates) : rates_(rates) {}
  const Work& work() const { return work_; }
  void restart() { *this = StepClock(rates_); }

  void compute(double operations) {
    work_.operations += operations;
    if (rates_) work_.seconds += operations / rates_->operations;
  }
  /// Returns when the collective ends, in seconds since the step began.
  double start(const Traffic& traffic) {
    work_.traffic += traffic;
    if (!rates_) return 0;
    if (traffic.network > 0) work_.seconds += (traffic.bus + traffic.network) * rates_->socket_seconds;
    const auto end = [this](double& free_at, double bytes, double rate) {
      return bytes > 0 && rate > 0 ? free_at = std::max(free_at, work_.seconds) + bytes / rate : 0;
    };
    return std::max(end(bus_free_at_, traffic.bus, rates_->bus),
                    end(network_free_at_, traffic.network, rates_->network));
  }
  void finish(double ends_at) { work_.seconds = std::max(work_.seconds, ends_at); }

 private:
  std::optional<Rates> rates_;
  Work work_;
  double bus_free_at_ = 0, network_free_at_ = 0;
};

}  // namespace wmtp
