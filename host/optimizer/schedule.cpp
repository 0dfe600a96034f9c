#include "optimizer/schedule.hpp"

#include <cmath>
#include <numbers>

namespace wmtp {

double learning_rate(const ScheduleConfig& schedule, double lr, int64_t step, int64_t num_steps) {
  if (step < schedule.warmup_steps) return lr * double(step) / double(schedule.warmup_steps);
  if (schedule.name == Schedule::constant) return lr;
  const int64_t begin = schedule.warmup_steps + schedule.stable_steps;  // first step of the decay
  if (step < begin) return lr;
  const double after = double(num_steps - begin);
  const double progress = after <= 0 ? 1.0 : double(step - begin) / after;
  const bool is_linear =
      schedule.name == Schedule::linear || (schedule.name == Schedule::wsd && schedule.decay == DecayShape::linear);
  const double cycle = progress < 1 ? std::fmod(progress * double(schedule.cycles), 1.0) : 1.0;
  const double share = is_linear ? 1.0 - progress : 0.5 * (1.0 + std::cos(std::numbers::pi * cycle));
  return lr * (schedule.min_lr_ratio + (1.0 - schedule.min_lr_ratio) * share);
}

}  // namespace wmtp
