#include "process/socket_child.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/json_text.hpp"

namespace wmtp {

SocketChild::SocketChild(ChildRequest request, bool has_stdout) : child_(start(std::move(request), has_stdout)) {}

ChildProcess SocketChild::start(ChildRequest request, bool has_stdout) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw storage_error("open", "a socket to " + request.program.string(), errno);
  socket_ = FileDescriptor(ends[0]);
  const FileDescriptor other(ends[1]);
  request.descriptors = {other.get(), has_stdout ? STDERR_FILENO : other.get(), STDERR_FILENO};
  return ChildProcess(request);
}

bool send_line(int socket, std::string_view line) {
  const std::string text = std::string(line) + "\n";
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t count = retry_interrupted([&] { return send(socket, rest.data(), rest.size(), MSG_NOSIGNAL); });
    if (count < 0) return false;
    rest.remove_prefix(size_t(count));
  }
  return true;
}

std::optional<std::string> SocketChild::receive(int limit_ms, size_t longest) {
  std::string piece(1 << 16, '\0');
  size_t end = read_.find('\n');
  while (end == std::string::npos) {
    pollfd readable{socket_.get(), POLLIN, 0};
    if (retry_interrupted([&] { return poll(&readable, 1, limit_ms); }) <= 0) return std::nullopt;
    const ssize_t count = retry_interrupted([&] { return recv(socket_.get(), piece.data(), piece.size(), 0); });
    if (count <= 0 || read_.size() + size_t(count) > longest) return std::nullopt;
    const size_t begin = read_.size();
    read_.append(piece, 0, size_t(count));
    end = read_.find('\n', begin);
  }
  std::string line = read_.substr(0, end);
  read_.erase(0, end + 1);
  return line;
}

void SocketChild::end_input() { shutdown(socket_.get(), SHUT_WR); }

bool SocketChild::send_json(const OrderedJson& message) { return send(dumped(message)); }

std::optional<Json> SocketChild::receive_json(int limit_ms, size_t longest) {
  const auto line = receive(limit_ms, longest);
  Json message = line ? Json::parse(*line, nullptr, false) : Json();
  return message.is_object() ? std::optional(std::move(message)) : std::nullopt;
}

}  // namespace wmtp
