#include "base/status_line.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <mutex>

#include "base/environment.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"

namespace wmtp {
namespace {

std::mutex mutex;
bool is_visible = false;  ///< on a terminal, without a newline

void clear() {
  if (is_visible) std::fputs("\r\033[K", stderr);
  is_visible = false;
}

/// Progress must not hold up a rank for whom others wait: while a terminal is paused or a reader is slow, it is not
/// shown.
bool has_room() {
  pollfd output{STDERR_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLOUT) != 0;
}

/// Of the terminal, which may have been resized since the last line.
size_t columns_of_terminal() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// Whether a terminal shows this character two columns wide: East Asian wide and full-width ones, and emoji. (wcwidth()
/// needs a locale.)
bool is_wide(char32_t c) {
  constexpr char32_t wide[][2] = {{0x1100, 0x115f}, {0x231a, 0x231b},   {0x23e9, 0x23f3},   {0x25fd, 0x27bf},
                                  {0x2b1b, 0x2b55}, {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xa960, 0xa97f},
                                  {0xac00, 0xd7a3}, {0xf900, 0xfaff},   {0xfe10, 0xfe6f},   {0xff00, 0xff60},
                                  {0xffe0, 0xffe6}, {0x16fe0, 0x1b2ff}, {0x1f000, 0x1faff}, {0x20000, 0x3fffd}};
  return std::any_of(std::begin(wide), std::end(wide),
                     [&](const auto& range) { return c >= range[0] && c <= range[1]; });
}

/// The code point of one valid UTF-8 character.
char32_t code_point(std::string_view character) {
  const auto first = uint8_t(character[0]);
  char32_t code = first < 0x80 ? first : first & (0x7f >> character.size());
  for (const char byte : character.substr(1)) code = code << 6 | (uint8_t(byte) & 0x3f);
  return code;
}

}  // namespace

bool can_draw_status() { return isatty(STDERR_FILENO) == 1 && environment_value("TERM") != "dumb"; }

std::string truncate_status(const std::string& text, size_t columns) {
  const std::string valid = repaired_utf8(text);
  std::string shown;
  size_t used = 0, before_last = 0;  // before_last: bytes of `shown` that leave a column for the ellipsis
  for (size_t at = 0, end = 0; at < valid.size(); at = end) {
    for (end = at + 1; end < valid.size() && is_continuation(valid[end]); ++end) {
    }
    const std::string_view character = std::string_view(valid).substr(at, end - at);
    const char32_t code = code_point(character);
    used += is_wide(code) ? 2 : 1;
    if (used > columns) return columns == 0 ? "" : shown.substr(0, before_last) + "…";
    shown += code < 0x20 || (code >= 0x7f && code < 0xa0) ? "?" : character;
    if (used < columns) before_last = shown.size();
  }
  return shown;
}

void show_status(const std::string& text) {
  const bool drawn = can_draw_status();
  const std::lock_guard lock(mutex);
  if (!has_room()) return;
  clear();
  // In the last column some terminals already begin the next row.
  std::fputs((drawn ? truncate_status(text, columns_of_terminal() - 1) : text + "\n").c_str(), stderr);
  is_visible = drawn;
}

void end_status_line() {
  const std::lock_guard lock(mutex);
  if (is_visible) std::fputc('\n', stderr);
  is_visible = false;
}

StatusPause::StatusPause() {
  mutex.lock();
  clear();
}

StatusPause::~StatusPause() { mutex.unlock(); }

}  // namespace wmtp
