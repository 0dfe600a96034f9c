#include "run/progress.hpp"

#include <unistd.h>

#include <cstdio>

#include "base/text.hpp"
#include "memory/allocator.hpp"

namespace wmtp {
namespace {

constexpr std::chrono::milliseconds between_lines_elsewhere{1000}, between_lines_on_terminal{100};

}  // namespace

Progress::Progress(std::string name, int64_t first_step, int64_t num_steps, bool shown)
    : name_(std::move(name)),
      first_step_(first_step),
      num_steps_(num_steps),
      shown_(shown),
      terminal_(isatty(STDERR_FILENO) != 0),
      last_line_() {}

Progress::~Progress() {
  if (drawn_) std::fputc('\n', stderr);
}

void Progress::clear_line() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void Progress::say(const std::string& text) {
  if (!shown_) return;
  clear_line();
  std::fprintf(stderr, "%s: %s\n", name_.c_str(), text.c_str());
}

void Progress::step(const StepReport& report) {
  if (!shown_) return;
  const double seconds = report.metrics.at("perf/step_seconds");
  seconds_per_step_ = seconds_per_step_ == 0 ? seconds : 0.9 * seconds_per_step_ + 0.1 * seconds;
  const auto now = std::chrono::steady_clock::now();
  const bool ends = report.step == num_steps_ || report.step == first_step_;
  if (!ends && now - last_line_ < (terminal_ ? between_lines_on_terminal : between_lines_elsewhere)) return;
  last_line_ = now;
  const std::string line = printed("%s: step %lld/%lld  loss %.4f  %s tokens/s  memory %s  %s left", name_.c_str(),
                                   static_cast<long long>(report.step), static_cast<long long>(num_steps_), report.loss,
                                   with_thousands(int64_t(report.metrics.at("perf/tokens_per_second"))).c_str(),
                                   human_bytes(resident_bytes()).c_str(),
                                   human_seconds(seconds_per_step_ * double(num_steps_ - report.step)).c_str());
  clear_line();
  std::fprintf(stderr, "%s%s", line.c_str(), terminal_ ? "" : "\n");
  drawn_ = terminal_;
  std::fflush(stderr);
}

void Progress::validation(int64_t step, double loss) {
  say(printed("step %lld: validation loss %.4f", static_cast<long long>(step), loss));
}

}  // namespace wmtp
