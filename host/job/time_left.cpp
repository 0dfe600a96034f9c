#include "job/time_left.hpp"

#include <algorithm>

namespace wmtp {
namespace {
constexpr double smoothing_factor = 0.1;
}

void TimeLeft::step(int64_t step, double seconds) {
  const bool first_is_known_only = step <= plan_.first_step + 1;  // which is slower, with cold caches
  step_ = first_is_known_only ? seconds : (1 - smoothing_factor) * step_ + smoothing_factor * seconds;
}

double TimeLeft::seconds_after(int64_t step) const {
  return step_ * double(plan_.num_steps - step) + validation_ * double(validations_after(step)) + save_;
}

int64_t TimeLeft::validations_after(int64_t step) const {
  const int64_t at_the_end = 1, every = plan_.validate_every;
  if (every <= 0) return at_the_end;
  // step() is called before the step's validation.
  return at_the_end + std::max<int64_t>(0, (plan_.num_steps - 1) / every - (step - 1) / every);
}

}  // namespace wmtp
