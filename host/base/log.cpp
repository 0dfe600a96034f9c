// Two spdlog loggers on stderr: info without a prefix, warnings and errors with their level in colour.
#include "base/log.hpp"

#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/environment.hpp"
#include "base/status_line.hpp"

namespace wmtp {
namespace {

std::shared_ptr<spdlog::logger> make_logger(const char* pattern, bool color) {
  auto sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(color ? spdlog::color_mode::always
                                                                              : spdlog::color_mode::never);
  auto logger = std::make_shared<spdlog::logger>("wmtp", sink);
  logger->set_pattern(pattern);
  return logger;
}

struct Loggers {
  explicit Loggers(const LogSettings& settings)
      : information(make_logger("%v", false)),
        problems(make_logger("%^%l:%$ %v", settings.color && stderr_takes_color())),
        settings(settings) {}

  std::shared_ptr<spdlog::logger> information, problems;
  LogSettings settings;
};

Loggers& loggers() {
  static Loggers all{LogSettings{}};
  return all;
}

}  // namespace

void configure_log(const LogSettings& settings) { loggers() = Loggers(settings); }

LogSettings log_settings() { return loggers().settings; }

void log_info(std::string_view message) {
  if (loggers().settings.quiet) return;
  const StatusPause gap;
  loggers().information->info(message);
}

void log_warning(std::string_view message) {
  const StatusPause gap;
  loggers().problems->warn(message);
}

void log_error(std::string_view message) {
  const StatusPause gap;
  loggers().problems->error(message);
}

void log_failure(std::string_view message) {
  if (message.find('\n') == std::string::npos) return log_error(message);
  const StatusPause gap;
  loggers().information->error(message);
}

bool stderr_takes_color() {
  return environment_value("NO_COLOR").empty() && !environment_value("TERM").empty() && can_draw_status();
}

}  // namespace wmtp
