// `ui`: the live page.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <iostream>
#include <memory>

#include "base/log.hpp"
#include "cli/command.hpp"
#include "core/ui/page_data.hpp"
#include "core/ui/server.hpp"

namespace wmtp {
namespace {

constexpr int default_port = 8317;

void open_browser(const std::string& address) {
  std::string program = "xdg-open", argument = address;
  char* arguments[] = {program.data(), argument.data(), nullptr};
  posix_spawnattr_t attributes;  // the server waits for signals; what is started here must not
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  int status = 1;
  const bool started = posix_spawnp(&child, program.c_str(), nullptr, &attributes, arguments, environ) == 0;
  posix_spawnattr_destroy(&attributes);
  if (!started || waitpid(child, &status, 0) != child || status != 0)
    log_warning("no browser could be opened (xdg-open); open " + address + " yourself");
}

}  // namespace

void add_ui(CommandLine& line) {
  struct Options {
    int port = default_port;
    bool open = false;
  };
  const auto options = std::make_shared<Options>();
  auto& ui = line.add("ui",
                      "show runs in a browser, live: curves, differences, memory, events, weights of tokens\n\n"
                      "The page is read-only, and for this machine only (127.0.0.1). Ctrl-C ends it.\n\n"
                      "examples:\n  wmtp-host ui\n  wmtp-host ui --db other.db --port 0 --open\n",
                      [options](const GlobalOptions& globals) {
                        const auto database = globals.database_or(default_database);
                        PageData data(database);
                        serve_page(data, options->port, [&](int port) {
                          const std::string address = "http://127.0.0.1:" + std::to_string(port) + "/";
                          std::cout << address << std::endl;
                          log_info("shows " + database.string() + ", read-only; Ctrl-C ends it");
                          if (options->open) open_browser(address);
                        });
                        return 0;
                      });
  ui.add_option("--port", options->port, "of 127.0.0.1; 0: any that is free (8317)")
      ->type_name("N")
      ->check(CLI::Range(0, 65535));
  ui.add_flag("--open", options->open, "open the page in the desktop's browser");
}

}  // namespace wmtp
