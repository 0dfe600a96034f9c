// Forwards lines of many pipes to one file descriptor, complete and in the order of arrival. [launcher process]
//
// Forwarding never blocks: if a sink is full (a pager, a full pipe), its bytes are buffered and its sources are not
// read until it has room again, so that the ranks experience back pressure and the launcher still handles signals. A
// sink whose reader is gone discards its input, so that `| head` does not end a run, as does one on /dev/null, which a
// closed stream is (base/files.hpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace wmtp {

/// How long a process that was requested to stop waits for the reader of its output.
inline constexpr int patience_with_reader_ms = 1000;

class LineSink {
 public:
  /// Does not own `fd`. On a terminal each line first clears the progress line that rank 0 may have drawn.
  explicit LineSink(int fd);
  void line(std::string_view prefix, std::string_view text);
  bool terminal() const { return terminal_; }
  bool has_room() const { return pending_.empty(); }
  int fd() const { return fd_; }
  /// [fd is writable] Writes at most what a pipe accepts without blocking.
  void write_some();
  /// Blocks until everything is written, for at most `longest_ms` between two writes (-1: no limit), or until a signal
  /// interrupts the wait for the reader; then gives up.
  void flush(int longest_ms = -1);
  /// Drops what is pending and all that follows.
  void give_up();

 private:
  int fd_;
  bool terminal_;
  bool gone_;  ///< nobody reads
  std::string pending_;
};

class LineSource {
 public:
  /// Does not own `fd` (non-blocking; -1: no pipe).
  LineSource(int fd, std::string prefix, LineSink& sink) : fd_(fd), prefix_(std::move(prefix)), sink_(&sink) {}
  int fd() const { return fd_; }
  LineSink& sink() const { return *sink_; }
  /// Forwards the available bytes; fd() is -1 after end of file.
  void read_some();
  /// Forwards the rest of the pipe, including a last line without a newline.
  void drain();

 private:
  void forward_whole_lines();

  int fd_;
  std::string prefix_;
  LineSink* sink_;
  std::string unfinished_;
};

/// Waits until `fd` is readable, a source with room in its sink is readable, or a sink is writable, for at most
/// `timeout_ms` (-1: no limit); then reads and writes without blocking.
void forward_some(int fd, LineSink& out, LineSink& err, const std::vector<LineSource*>& sources, int timeout_ms);

}  // namespace wmtp
