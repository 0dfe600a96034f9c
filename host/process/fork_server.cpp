#include "process/fork_server.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/stop_signals.hpp"
#include "process/child_setup.hpp"

namespace wmtp {
namespace {

/// Of the server: once when it is ready, then for each child.
struct Reply {
  pid_t child = 0;
  int error = 0;  ///< errno
};

/// The descriptors of one request: a file that contains arguments, environment and signal mask; stdout; stderr.
constexpr size_t num_sent = 3;
using Sent = std::array<FileDescriptor, num_sent>;

void send_reply(int to, const Reply& reply) {
  retry_interrupted([&] { return write(to, &reply, sizeof reply); });
}

/// Nothing if the sender is gone.
std::optional<Reply> receive_reply_from(int from) {
  Reply reply;
  if (retry_interrupted([&] { return read(from, &reply, sizeof reply); }) != sizeof reply) return std::nullopt;
  return reply;
}

/// A message of one byte, which carries the descriptors.
struct Message {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * num_sent)> control{};
  msghdr header{};

  Message() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
};

/// The receiver may be gone; its reply is then missing.
void send_descriptors(int socket, const std::array<int, num_sent>& descriptors) {
  Message message;
  cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof descriptors);
  retry_interrupted([&] { return sendmsg(socket, &message.header, MSG_NOSIGNAL); });
}

/// Nothing if the sender is gone.
std::optional<Sent> received_descriptors(int socket) {
  Message message;
  if (retry_interrupted([&] { return recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC); }) != 1) return std::nullopt;
  std::array<int, num_sent> numbers;
  const cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  if (!rights || rights->cmsg_type != SCM_RIGHTS || rights->cmsg_len != CMSG_LEN(sizeof numbers))
    throw Error(ExitStatus::bug, "a request to fork lacks its descriptors");
  std::memcpy(numbers.data(), CMSG_DATA(rights), sizeof numbers);
  Sent sent;
  for (size_t i = 0; i < num_sent; ++i) sent[i] = FileDescriptor(numbers[i]);
  return sent;
}

/// A file without a name. Unlike a message, it has no limit of size.
FileDescriptor memory_file(const std::vector<uint8_t>& bytes) {
  FileDescriptor file(memfd_create("wmtp-fork", MFD_CLOEXEC));
  if (file.get() < 0) throw_system("cannot create a file in memory", errno);
  const ssize_t count = write(file.get(), bytes.data(), bytes.size());
  if (count != ssize_t(bytes.size())) throw_system("cannot write to a file in memory", count < 0 ? errno : EFBIG);
  return file;
}

std::vector<uint8_t> read_all(int file) {
  std::vector<uint8_t> bytes(size_t(std::max<off_t>(0, lseek(file, 0, SEEK_END))));
  const ssize_t count = pread(file, bytes.data(), bytes.size(), 0);
  if (count != ssize_t(bytes.size())) throw_system("cannot read a request to fork", count < 0 ? errno : EIO);
  return bytes;
}

/// While it exists, orphans among the descendants of this process become its children.
class Subreaper {
 public:
  Subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~Subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 0); }
  Subreaper(const Subreaper&) = delete;
};

void replace_environment(const std::vector<std::string>& entries) {
  clearenv();
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), /*overwrite=*/1);
  }
}

/// [in the child] Returns its arguments.
std::vector<std::string> become_child(const Sent& sent) {
  const Json request = Json::from_cbor(read_all(sent[0].get()));
  setpgid(0, 0);
  sigset_t mask;
  std::memcpy(&mask, request.at("signal_mask").get_binary().data(), sizeof mask);
  use_default_signals(mask);
  place_standard_streams(/*in=*/-1, sent[1].get(), sent[2].get());
  replace_environment(request.at("environment"));
  return request.at("arguments");
}

/// [in the process between server and child] Forks the child and ends. Returns in the child, as a child of `owner`.
void fork_for(pid_t owner, int report) {
  const pid_t itself = getpid();
  const pid_t child = fork();
  if (child < 0) send_reply(report, {0, errno});
  if (child != 0) _exit(0);
  while (getppid() == itself) usleep(50);
  end_with_parent(owner);
}

}  // namespace

ForkServer::ForkServer(ChildRequest request) : name_(request.program.string()) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw_system("cannot create a socket", errno);
  socket_ = FileDescriptor(ends[0]);
  const FileDescriptor of_server(ends[1]);
  request.input = of_server.get();
  request.inherit_stdout = request.inherit_stderr = true;
  server_.emplace(request);
}

pid_t ForkServer::receive_reply() {
  const auto reply = receive_reply_from(socket_.get());
  if (reply && reply->error == 0) return reply->child;
  if (reply) throw_system("cannot fork " + name_, reply->error);
  const int status = server_->wait();
  throw Error(failure_status(status), name_ + " " + exit_text(status, "before it started a process"));
}

void ForkServer::wait_until_ready() {
  if (!ready_) receive_reply();
  ready_ = true;
}

ChildProcess ForkServer::start(const ChildRequest& request) {
  wait_until_ready();
  const auto* mask = reinterpret_cast<const uint8_t*>(&request.signal_mask);
  const FileDescriptor file = memory_file(Json::to_cbor({
      {"arguments", request.arguments},
      {"environment", request.environment},
      {"signal_mask", Json::binary({mask, mask + sizeof request.signal_mask})},
  }));
  Pipe out, err;
  if (!request.inherit_stdout) out = Pipe::open();
  if (!request.inherit_stderr) err = Pipe::open();
  const Subreaper adopts_the_child;
  send_descriptors(socket_.get(), {file.get(), request.inherit_stdout ? STDOUT_FILENO : out.write_end.get(),
                                   request.inherit_stderr ? STDERR_FILENO : err.write_end.get()});
  return ChildProcess(receive_reply(), std::move(out.read_end), std::move(err.read_end));
}

std::optional<std::vector<std::string>> serve_forks() {
  const pid_t owner = getppid();
  // Sent to all processes of a job, they are for the owner and its children; the server ends with its socket.
  for (const int signal : stop_signals) std::signal(signal, SIG_IGN);
  send_reply(STDIN_FILENO, {});
  while (const auto sent = received_descriptors(STDIN_FILENO)) {
    prepare_fork_without_exec();
    Pipe report = Pipe::open();
    const pid_t between = fork();
    if (between == 0) {
      fork_for(owner, report.write_end.get());
      std::vector<std::string> arguments = become_child(*sent);
      send_reply(report.write_end.get(), {getpid(), 0});
      return arguments;
    }
    Reply reply{0, between < 0 ? errno : 0};
    report.write_end.reset();
    if (between > 0) {
      waitpid(between, nullptr, 0);
      reply = receive_reply_from(report.read_end.get()).value_or(Reply{0, ECHILD});
    }
    send_reply(STDIN_FILENO, reply);
  }
  return std::nullopt;
}

}  // namespace wmtp
