// What rank 0 shows while it trains: on a terminal one line that is drawn again, elsewhere plain lines, not more than
// one a second. Messages, so stderr.
#pragma once

#include <chrono>
#include <string>

#include "train/trainer.hpp"

namespace wmtp {

class Progress {
 public:
  Progress(std::string name, int64_t first_step, int64_t num_steps, bool shown);
  ~Progress();
  void step(const StepReport& report);
  void validation(int64_t step, double loss);
  /// A line of its own, above the progress line.
  void say(const std::string& text);

 private:
  void clear_line();
  std::string name_;
  int64_t first_step_, num_steps_;
  bool shown_, terminal_, drawn_ = false;
  double seconds_per_step_ = 0;
  std::chrono::steady_clock::time_point last_line_;
};

}  // namespace wmtp
