#include "base/status_line.hpp"

#include <unistd.h>

#include <cstdio>
#include <mutex>

namespace wmtp {
namespace {

std::mutex in_hand;
bool is_there = false;  ///< a drawn one, without a newline

void clear() {
  if (is_there) std::fputs("\r\033[K", stderr);
  is_there = false;
}

}  // namespace

bool status_is_drawn() { return isatty(STDERR_FILENO) == 1; }

void show_status(const std::string& text) {
  const bool drawn = status_is_drawn();
  const std::lock_guard lock(in_hand);
  clear();
  std::fputs((drawn ? text : text + "\n").c_str(), stderr);
  is_there = drawn;
}

void keep_status() {
  const std::lock_guard lock(in_hand);
  if (is_there) std::fputc('\n', stderr);
  is_there = false;
}

StatusGap::StatusGap() {
  in_hand.lock();
  clear();
}

StatusGap::~StatusGap() { in_hand.unlock(); }

}  // namespace wmtp
