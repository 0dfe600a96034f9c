// wmtp-host: registers every command and turns errors into exit codes. Each command has its own file in this folder or
// below it.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/stop_signals.hpp"
#include "base/system_limits.hpp"
#include "cli/command.hpp"

namespace {

int fail(wmtp::ExitStatus status, const std::string& message) {
  wmtp::log_failure(message);
  return int(status);
}

/// [inside a catch block]
int fail_with_exception() {
  if (const auto error = wmtp::caught_system_error()) return fail(error->status(), error->what());
  try {
    throw;
  } catch (const wmtp::Error& error) {
    return fail(error.status(), error.what());
  } catch (const std::exception& error) {
    return fail(wmtp::ExitStatus::bug, std::string("internal error, please report it: ") + error.what());
  } catch (...) {
    return fail(wmtp::ExitStatus::bug, "internal error, please report it: an exception without a message");
  }
}

/// The terminate handler, for a thread of a library that cannot start another one.
[[noreturn]] void end_after_uncaught_exception() {
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (...) {
    if (const auto error = wmtp::caught_system_error()) _exit(fail(error->status(), error->what()));
  }
  std::abort();
}

/// The exit code of a command that printed its result: not that of success if the result is incomplete.
int flushed(int code) {
  std::cout.flush();
  if (code == 0 && !std::cout)
    throw wmtp::Error(wmtp::ExitStatus::storage,
                      "cannot write to standard output; the disk is full, or the reader of a pipe has gone");
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  wmtp::open_missing_streams();
  wmtp::unblock_signals();
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding RLIMIT_FSIZE then makes write() fail, which is reported
  try {
    wmtp::check_stack_limit();
    std::set_terminate(end_after_uncaught_exception);
    wmtp::CommandLine line;
    wmtp::add_init(line);
    wmtp::add_experiments(line);
    wmtp::add_run(line);
    wmtp::add_plan(line);
    wmtp::add_study(line);
    wmtp::add_eval(line);
    wmtp::add_weigh(line);
    wmtp::add_doctor(line);
    wmtp::add_completion(line);
    wmtp::add_manual(line);
    wmtp::add_runs(line);
    wmtp::add_labels(line);
    wmtp::add_ui(line);
    wmtp::add_report(line);
    wmtp::add_sql(line);
    wmtp::add_export(line);
    wmtp::add_plugins(line);
    wmtp::add_plugin_author(line);
    wmtp::add_checkpoint(line);
    wmtp::add_convert(line);
    wmtp::add_merge(line);
    wmtp::add_data(line);
    wmtp::add_generate(line);
    const auto answered = line.parse(argc, argv);
    return flushed(answered ? *answered : line.run());
  } catch (...) {
    return fail_with_exception();
  }
}
