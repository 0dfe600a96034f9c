#include "run/progress.hpp"

#include <unistd.h>

#include <cstdio>

#include <spdlog/fmt/fmt.h>

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
  fmt::print(stderr, "{}: {}\n", name_, text);
}

void Progress::step(const StepReport& report) {
  if (!shown_) return;
  const double seconds = report.metrics.at("perf/step_seconds");
  seconds_per_step_ = seconds_per_step_ == 0 ? seconds : 0.9 * seconds_per_step_ + 0.1 * seconds;
  const auto now = std::chrono::steady_clock::now();
  const bool ends = report.step == num_steps_ || report.step == first_step_;
  if (!ends && now - last_line_ < (terminal_ ? between_lines_on_terminal : between_lines_elsewhere)) return;
  last_line_ = now;
  const std::string line = fmt::format(
      "{}: step {}/{}  loss {:.4f}  {} tokens/s  memory {}  {} left", name_, report.step, num_steps_, report.loss,
      with_thousands(int64_t(report.metrics.at("perf/tokens_per_second"))), human_bytes(resident_bytes()),
      human_seconds(seconds_per_step_ * double(num_steps_ - report.step)));
  clear_line();
  fmt::print(stderr, "{}{}", line, terminal_ ? "" : "\n");
  drawn_ = terminal_;
  std::fflush(stderr);
}

void Progress::validation(int64_t step, double loss) { say(fmt::format("step {}: validation loss {:.4f}", step, loss)); }

}  // namespace wmtp
