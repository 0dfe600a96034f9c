// What rank 0 shows while it trains: on a terminal one line that is drawn again, elsewhere plain lines, not more than
// one a second. Messages, so stderr.
#pragma once

#include <chrono>
#include <string>

#include "core/job/time_left.hpp"
#include "engine/train/trainer.hpp"

namespace wmtp {

class Progress {
 public:
  Progress(std::string name, const TimeLeft::Plan& plan, bool shown);
  ~Progress();
  void step(const StepReport& report);
  void validation(int64_t step, double loss, double seconds);
  void save(double seconds) { time_left_.save(seconds); }

 private:
  std::string name_;
  TimeLeft::Plan plan_;
  bool shown_;
  TimeLeft time_left_;
  std::chrono::steady_clock::time_point last_line_;
};

}  // namespace wmtp
