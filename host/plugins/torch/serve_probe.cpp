#include "plugins/torch/serve_probe.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_text.hpp"

namespace wmtp {
namespace {

std::string refusal(ExitStatus status, const std::string& text) {
  return dumped(Json{{"refused", text}, {"status", int(status)}});
}

}  // namespace

int serve_probe(const std::string& request, const std::function<std::string(const std::string&)>& handler) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::fflush(stdout);
  std::FILE* const out = fdopen(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3), "w");
  dup2(STDERR_FILENO, STDOUT_FILENO);

  std::string reply;
  ExitStatus status = ExitStatus::done;
  try {
    reply = handler(request);
  } catch (const Error& error) {
    status = error.status();
    reply = refusal(status, error.what());
  } catch (const std::exception& error) {
    status = ExitStatus::plugin;
    reply = refusal(status, request + ": " + error.what());
  } catch (...) {
    status = ExitStatus::plugin;
    reply = refusal(status, request + ": its code threw an exception that is not derived from std::exception");
  }
  const bool written = out && std::fputs((reply + "\n").c_str(), out) >= 0 && std::fclose(out) == 0;
  return written ? int(status) : int(ExitStatus::storage);
}

}  // namespace wmtp
