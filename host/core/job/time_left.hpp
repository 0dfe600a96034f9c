// How long a run will go on: its steps, the validations between them and after them, and the save that it ends with,
// each as long as it took lately. What has not happened yet has no length: before the first validation none is counted,
// and the writing of the model at the end never is.
#pragma once

#include <cstdint>

namespace wmtp {

class TimeLeft {
 public:
  struct Plan {
    int64_t first_step = 1, num_steps = 0;
    int64_t validate_every = 0;  ///< 0: after the last step only
  };
  explicit TimeLeft(const Plan& plan) : plan_(plan) {}

  void step(int64_t step, double seconds);
  void validation(double seconds) { validation_ = seconds; }
  void save(double seconds) { save_ = seconds; }
  /// After that step has been told.
  double seconds_after(int64_t step) const;

 private:
  int64_t validations_after(int64_t step) const;

  Plan plan_;
  double step_ = 0, validation_ = 0, save_ = 0;
};

}  // namespace wmtp
