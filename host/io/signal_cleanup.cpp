#include "io/signal_cleanup.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include "base/stop_signals.hpp"

namespace wmtp {
namespace {

constexpr int max_folders = 32, max_nesting_depth = 16, max_tries = 3;

struct Slot {
  std::atomic<bool> is_used = false;
  std::atomic<pid_t> owner = 0;  ///< a fork leaves the folders to its parent; 0: the path is not complete
  char path[PATH_MAX];           ///< in place, because a handler may run in any thread while another one unregisters
};
Slot slots[max_folders];

// In a signal handler; system calls only.

void remove_below(int parent, const char* name, int depth) {
  if (unlinkat(parent, name, 0) == 0 || errno != EISDIR || depth > max_nesting_depth) return;
  for (int i = 0; i < max_tries; ++i) {  // another thread may still be writing
    const int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) return;
    alignas(dirent64) char entries[2048];
    for (long bytes; (bytes = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0;)
      for (long at = 0; at < bytes;) {
        const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
        at += entry->d_reclen;
        if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
          remove_below(folder, entry->d_name, depth + 1);
      }
    close(folder);
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0) return;
  }
}

void remove_and_end(int signal) {
  remove_registered_folders();
  std::signal(signal, SIG_DFL);
  raise(signal);  // takes effect when this handler returns
}

void install_handlers() {
  const auto handle = [](int signal) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL) return;
    now.sa_handler = remove_and_end;
    sigaction(signal, &now, nullptr);
  };
  for (const int signal : stop_signals) handle(signal);
  handle(SIGPIPE);
}

}  // namespace

CleanupOnSignal::CleanupOnSignal(const std::filesystem::path& folder) {
  install_handlers();  // each time: who handled a signal may have stopped doing so
  const std::string path = folder.string();
  if (path.size() >= PATH_MAX) return;
  for (int i = 0; i < max_folders; ++i) {
    if (slots[i].is_used.exchange(true)) continue;
    std::memcpy(slots[i].path, path.c_str(), path.size() + 1);
    slots[i].owner = getpid();
    slot_ = i;
    return;
  }
}

CleanupOnSignal::~CleanupOnSignal() {
  if (slot_ < 0) return;
  slots[slot_].owner = 0;
  slots[slot_].is_used = false;
}

void remove_registered_folders() {
  const int code = errno;
  for (const Slot& slot : slots)
    if (slot.owner == getpid()) remove_below(AT_FDCWD, slot.path, 0);
  errno = code;
}

}  // namespace wmtp
