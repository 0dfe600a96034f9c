// SocketChild: a child process that exchanges lines with this one over a socket. Not pipes, because a write to a pipe
// whose reader has ended would end this process.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.hpp"
#include "process/child_process.hpp"

namespace wmtp {

/// Sends one line. False if the other end is closed.
bool send_line(int socket, std::string_view line);

class SocketChild {
 public:
  /// The socket is the child's descriptor 0 and, if `has_stdout` is false, also 1; its other streams are our stderr.
  /// `request` has no descriptors. Errors as of ChildProcess.
  SocketChild(ChildRequest request, bool has_stdout);

  /// False if the child has ended.
  bool send(std::string_view line) { return send_line(socket_.get(), line); }
  /// The child's next line, without its end. nullopt if the child has ended, is silent for `limit_ms` (-1: no limit),
  /// or writes a line of more than `longest` bytes.
  std::optional<std::string> receive(int limit_ms, size_t longest);
  /// The child reads the end of its input; it may still send lines.
  void end_input();
  /// As a line; bytes that are not UTF-8 are replaced.
  bool send_json(const OrderedJson& message);
  /// A line that is a JSON object; nullopt also for another line.
  std::optional<Json> receive_json(int limit_ms, size_t longest);

  ChildProcess& process() { return child_; }

 private:
  ChildProcess start(ChildRequest request, bool has_stdout);
  FileDescriptor socket_;  // before the child, whose start sets it
  ChildProcess child_;
  std::string read_;  ///< after the last line
};

}  // namespace wmtp
