// Estimates the remaining time of a run: steps, validations and last save, each with its recent duration. Unmeasured
// parts count as zero: validations before the first one, and always the writing of the final model.
#pragma once

#include <cstdint>

namespace wmtp {

class TimeLeft {
 public:
  struct Plan {
    int64_t first_step = 1, num_steps = 0;
    int64_t validate_every = 0;  ///< 0: only after the last step
  };
  explicit TimeLeft(const Plan& plan) : plan_(plan) {}

  void step(int64_t step, double seconds);
  void validation(double seconds) { validation_ = seconds; }
  void save(double seconds) { save_ = seconds; }
  /// [after step()]
  double seconds_after(int64_t step) const;

 private:
  int64_t validations_after(int64_t step) const;

  Plan plan_;
  double step_ = 0, validation_ = 0, save_ = 0;
};

}  // namespace wmtp
