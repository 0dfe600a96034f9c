// wmtp-host: the contents page. Every command of the program stands here; each has its file in cli/.
#include <csignal>
#include <exception>
#include <iostream>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "cli/command.hpp"

namespace {

int fail(wmtp::ExitStatus status, const std::string& message) {
  wmtp::log_failure(message);
  return static_cast<int>(status);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond RLIMIT_FSIZE is then an error of write(), which is told
  try {
    wmtp::CommandLine line;
    wmtp::add_run(line);
    wmtp::add_plan(line);
    wmtp::add_eval(line);
    wmtp::add_doctor(line);
    wmtp::add_completion(line);
    wmtp::add_runs(line);
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
    if (const auto answered = line.parse(argc, argv)) return *answered;
    return line.run();
  } catch (const wmtp::Error& error) {
    return fail(error.status(), error.what());
  } catch (const std::exception& error) {
    return fail(wmtp::ExitStatus::bug, std::string("this is our own mistake, please report it: ") + error.what());
  } catch (...) {
    return fail(wmtp::ExitStatus::bug,
                "this is our own mistake, please report it: something was thrown without a text");
  }
}
