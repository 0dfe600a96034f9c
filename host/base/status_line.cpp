#include "base/status_line.hpp"

#include <unistd.h>

#include <cstdio>
#include <mutex>

namespace wmtp {
namespace {

std::mutex mutex;
bool is_visible = false;  ///< on a terminal, without a newline

void clear() {
  if (is_visible) std::fputs("\r\033[K", stderr);
  is_visible = false;
}

}  // namespace

bool status_is_drawn() { return isatty(STDERR_FILENO) == 1; }

void show_status(const std::string& text) {
  const bool drawn = status_is_drawn();
  const std::lock_guard lock(mutex);
  clear();
  std::fputs((drawn ? text : text + "\n").c_str(), stderr);
  is_visible = drawn;
}

void keep_status() {
  const std::lock_guard lock(mutex);
  if (is_visible) std::fputc('\n', stderr);
  is_visible = false;
}

StatusGap::StatusGap() {
  mutex.lock();
  clear();
}

StatusGap::~StatusGap() { mutex.unlock(); }

}  // namespace wmtp
