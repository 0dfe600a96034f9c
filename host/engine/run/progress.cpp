#include "engine/run/progress.hpp"

#include "base/log.hpp"
#include "base/status_line.hpp"
#include "base/text.hpp"
#include "engine/memory/allocator.hpp"

namespace wmtp {
namespace {

constexpr std::chrono::milliseconds between_lines{1000}, between_drawings{100};

}  // namespace

Progress::Progress(std::string name, const TimeLeft::Plan& plan, bool shown)
    : name_(std::move(name)), plan_(plan), shown_(shown), time_left_(plan), last_line_() {}

Progress::~Progress() {
  if (shown_) keep_status();
}

void Progress::step(const StepReport& report) {
  if (!shown_) return;
  time_left_.step(report.step, report.metrics.at("perf/step_seconds"));
  const auto now = std::chrono::steady_clock::now();
  const bool ends = report.step == plan_.num_steps || report.step == plan_.first_step;
  if (!ends && now - last_line_ < (status_is_drawn() ? between_drawings : between_lines)) return;
  last_line_ = now;
  show_status(printed("%s: step %lld/%lld  loss %.4f  %s tokens/s  memory %s  %s left", name_.c_str(),
                      static_cast<long long>(report.step), static_cast<long long>(plan_.num_steps), report.loss,
                      with_thousands(int64_t(report.metrics.at("perf/tokens_per_second"))).c_str(),
                      human_bytes(resident_bytes()).c_str(),
                      human_seconds(time_left_.seconds_after(report.step)).c_str()));
}

void Progress::validation(int64_t step, double loss, double seconds) {
  time_left_.validation(seconds);
  if (shown_)
    log_info(printed("%s: step %lld: validation loss %.4f", name_.c_str(), static_cast<long long>(step), loss));
}

}  // namespace wmtp
