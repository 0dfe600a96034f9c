// Lines from many pipes into one file descriptor, each line whole, in the order of arrival. [launcher process]
//
// Nothing here ever waits: a sink that does not take more (a pager, a stuck pipe) keeps its bytes, and the sources that
// feed it are not read until it has room again, so that the ranks feel the back pressure and the launcher still
// hears signals. A sink whose reader is gone drops what it gets: a run does not end because `| head` did.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace wmtp {

class LineSink {
 public:
  /// Does not own `fd`. On a terminal, where rank 0 may be drawing a progress line, each line clears that one first.
  explicit LineSink(int fd);
  void line(std::string_view prefix, std::string_view text);
  bool terminal() const { return terminal_; }
  bool has_room() const { return pending_.empty(); }
  int fd() const { return fd_; }
  /// [fd is writable] Writes no more than a pipe takes without blocking.
  void write_some();
  /// Waits until everything is written.
  void flush();

 private:
  int fd_;
  bool terminal_;
  bool gone_ = false;
  std::string pending_;
};

class LineSource {
 public:
  /// Does not own `fd` (non-blocking; -1: nothing to read).
  LineSource(int fd, std::string prefix, LineSink& sink) : fd_(fd), prefix_(std::move(prefix)), sink_(&sink) {}
  int fd() const { return fd_; }
  LineSink& sink() const { return *sink_; }
  /// Forwards what is there; fd() is -1 after the end.
  void read_some();
  /// Everything that is still in the pipe, and a last line without its newline.
  void drain();

 private:
  void forward_whole_lines();

  int fd_;
  std::string prefix_;
  LineSink* sink_;
  std::string unfinished_;
};

/// Waits until `fd` is readable, a source has something for a sink with room, or a sink takes more, for at most
/// `timeout_ms` (-1: for ever); reads and writes what it can of the latter two.
void forward_some(int fd, LineSink& out, LineSink& err, const std::vector<LineSource*>& sources, int timeout_ms);

}  // namespace wmtp
