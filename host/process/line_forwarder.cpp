#include "process/line_forwarder.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace wmtp {
namespace {
constexpr size_t max_line_bytes =
    1 << 20;  // longer lines are split, so that a rank cannot exhaust the launcher's memory

bool is_null_device(int fd) {
  struct stat found {};
  return fstat(fd, &found) == 0 && S_ISCHR(found.st_mode) && found.st_rdev == makedev(1, 3);
}

}  // namespace

LineSink::LineSink(int fd) : fd_(fd), terminal_(isatty(fd) == 1), gone_(is_null_device(fd)) {}

void LineSink::line(std::string_view prefix, std::string_view text) {
  if (gone_) return;
  if (terminal_) pending_ += "\r\033[K";
  pending_.append(prefix).append(text).push_back('\n');
}

void LineSink::write_some() {
  pollfd wanted{fd_, POLLOUT, 0};  // anew: another sink of the same pipe may have taken the room
  if (poll(&wanted, 1, 0) != 1) return;
  const ssize_t written = write(fd_, pending_.data(), std::min<size_t>(pending_.size(), PIPE_BUF));
  if (written >= 0) {
    pending_.erase(0, size_t(written));
  } else if (errno != EINTR && errno != EAGAIN) {
    give_up();
  }
}

void LineSink::give_up() {
  gone_ = true;
  pending_.clear();
}

void LineSink::flush(int longest_ms) {
  while (!pending_.empty()) {
    pollfd wanted{fd_, POLLOUT, 0};
    const int ready = poll(&wanted, 1, longest_ms);
    if (ready == 0 || (ready < 0 && errno == EINTR)) return give_up();
    write_some();
  }
}

void LineSource::read_some() {
  char bytes[1 << 16];
  const ssize_t got = read(fd_, bytes, sizeof bytes);
  if (got > 0) {
    unfinished_.append(bytes, size_t(got));
    forward_whole_lines();
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    fd_ = -1;
    if (!unfinished_.empty()) sink_->line(prefix_, unfinished_);
    unfinished_.clear();
  }
}

void LineSource::forward_whole_lines() {
  size_t begin = 0;
  for (size_t end; (end = unfinished_.find('\n', begin)) != std::string::npos; begin = end + 1)
    sink_->line(prefix_, std::string_view(unfinished_).substr(begin, end - begin));
  unfinished_.erase(0, begin);
  if (unfinished_.size() > max_line_bytes) {
    sink_->line(prefix_, unfinished_);
    unfinished_.clear();
  }
}

void LineSource::drain() {
  while (fd_ >= 0) {
    pollfd readable{fd_, POLLIN, 0};
    // A process left behind by a rank may keep the pipe open: read only what is available now.
    if (poll(&readable, 1, 0) != 1) break;
    read_some();
  }
  if (!unfinished_.empty()) sink_->line(prefix_, unfinished_);
  unfinished_.clear();
}

void forward_some(int fd, LineSink& out, LineSink& err, const std::vector<LineSource*>& sources, int timeout_ms) {
  std::vector<pollfd> wanted{{fd, POLLIN, 0}};
  for (LineSink* sink : {&out, &err}) wanted.push_back({sink->has_room() ? -1 : sink->fd(), POLLOUT, 0});
  for (LineSource* source : sources) wanted.push_back({source->sink().has_room() ? source->fd() : -1, POLLIN, 0});
  if (poll(wanted.data(), wanted.size(), timeout_ms) <= 0) return;
  if (wanted[1].revents) out.write_some();
  if (wanted[2].revents) err.write_some();
  for (size_t i = 0; i < sources.size(); ++i)
    if (wanted[3 + i].revents) sources[i]->read_some();
}

}  // namespace wmtp
