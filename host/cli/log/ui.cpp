// `ui`: serves the live page on this machine.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/secret.hpp"
#include "cli/command.hpp"
#include "io/scratch_folder.hpp"
#include "ui/page_data.hpp"
#include "ui/server.hpp"

namespace wmtp {
namespace {

constexpr int default_port = 8317;

/// A page that leads to an address with a token. Every user can read the arguments of a process, but only this user can
/// read the file, which is there as long as this.
class PrivatePage {
 public:
  explicit PrivatePage(const std::string& address) : file_(folder_.path() / "open.html") {
    const FileDescriptor file(open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const std::string page =
        "<!doctype html><meta charset=\"utf-8\"><title>wmtp-host</title><meta http-equiv=\"refresh\" "
        "content=\"0; url=" +
        address + "\"><a href=\"" + address + "\">wmtp-host</a>\n";
    if (file.get() < 0 || write(file.get(), page.data(), page.size()) != ssize_t(page.size()))
      throw storage_error("write", file_, errno);
  }

  const std::filesystem::path& file() const { return file_; }

 private:
  ScratchFolder folder_;
  std::filesystem::path file_;
};

/// `shown`: the address that a user opens, if the browser does not.
void open_browser(const std::string& address, const std::string& shown) {
  std::string program = "xdg-open", argument = address;
  char* arguments[] = {program.data(), argument.data(), nullptr};
  posix_spawnattr_t attributes;  // the server blocks signals; the browser must not inherit this
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
    log_warning("xdg-open failed to open a browser; open " + shown + " manually");
}

}  // namespace

void add_ui(CommandLine& line) {
  struct Options {
    int port = default_port;
    bool open = false, edit = false;
  };
  const auto options = std::make_shared<Options>();
  auto& ui = line.add(
      "ui",
      "show runs live in a browser: curves, differences, memory, events, token weights\n\n"
      "Serves the page to this machine only (127.0.0.1), until Ctrl-C. The page cannot change the log,\n"
      "except at the address that --edit prints.\n\n"
      "examples:\n"
      "  wmtp-host ui --edit --open\n"
      "  wmtp-host ui --db other.db --port 0\n",
      [options](const GlobalOptions& globals) {
        const auto database = globals.database_or(default_database);
        PageData data(database);
        std::optional<PageEditor> editor;
        std::optional<PrivatePage> page;
        if (options->edit)
          editor = {random_token(), [&](const std::string& change) { change_labels(database, change); }};
        serve_page(data, options->port, editor, [&](int port) {
          const std::string address =
              "http://127.0.0.1:" + std::to_string(port) + "/" + (editor ? "?edit=" + editor->token : "");
          std::cout << address << std::endl;
          log_info("serving " + database.string() +
                   (editor ? "; this address can change names, tags and notes" : ", read-only") + "; stop with Ctrl-C");
          if (!options->open) return;
          if (editor) page.emplace(address);
          open_browser(page ? page->file().string() : address, address);
        });
        return 0;
      });
  add_option(ui, "--port N", options->port, "port on 127.0.0.1; 0 picks a free one (8317)", CLI::Range(0, 65535));
  ui.add_flag("--edit", options->edit,
              "print an address whose page can change names, tags and notes, and archive runs");
  ui.add_flag("--open", options->open, "open the page in the default browser");
}

}  // namespace wmtp
