#include "ui/server.hpp"

#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/error.hpp"
#include "base/secret.hpp"
#include "ui/routes.hpp"

namespace wmtp {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr size_t threads = 32, most_waiting = 256;
constexpr size_t max_request_bytes = 64 << 10;  // of all headers together
constexpr size_t max_threads = 64 << 10;        // of parts that are sent together
// Total time for which a client may keep a thread waiting: to begin a request, then until it is answered.
constexpr std::chrono::milliseconds request_start_timeout = 1s, request_end_timeout = 10s, limit_if_others_wait = 500ms,
                                    poll_interval = 50ms;

thread_local bool refuse_connection = false;

class NewestFirst : public httplib::TaskQueue {
 public:
  explicit NewestFirst(std::atomic<size_t>& count) : count_(count) {
    try {
      for (size_t i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      if (workers_.empty()) throw;  // else fewer answer
    }
  }

  void enqueue(std::function<void()> connection) override {
    std::function<void()> oldest;
    {
      const std::lock_guard lock(mutex_);
      connections_.push_back(std::move(connection));
      if (connections_.size() > most_waiting) {
        oldest = std::move(connections_.front());
        connections_.pop_front();
      }
      count_ = connections_.size();
    }
    changed_.notify_one();
    if (!oldest) return;
    refuse_connection = true;
    oldest();  // lets the library close the connection
    refuse_connection = false;
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

 private:
  void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ended_ || !connections_.empty(); });
      if (connections_.empty()) return;
      const std::function<void()> connection = std::move(connections_.back());
      connections_.pop_back();
      count_ = connections_.size();
      lock.unlock();
      connection();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> connections_;
  std::atomic<size_t>& count_;
  bool ended_ = false;
  std::vector<std::thread> workers_;
};

/// A socket that limits the waiting time for its client.
class BoundedStream : public httplib::Stream {
 public:
  BoundedStream(int socket, const std::atomic<size_t>& others, const std::atomic<socket_t>& listening)
      : socket_(socket), others_(others), listening_(listening) {}

  /// False if no request begins in time.
  bool next_request() {
    waited_ = 0ms;
    taken_ = end_ - at_;
    return at_ < end_ || wait(POLLIN, request_start_timeout);
  }

  bool is_readable() const override { return at_ < end_ || wait(POLLIN, request_end_timeout); }
  bool is_writable() const override { return wait(POLLOUT, request_end_timeout); }

  ssize_t read(char* to, size_t size) override {
    if (at_ == end_) {
      if (taken_ > max_request_bytes || !wait(POLLIN, request_end_timeout)) return -1;
      const ssize_t count = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (count <= 0) return count;
      at_ = 0;
      end_ = size_t(count);
      taken_ += end_;
    }
    size = std::min(size, end_ - at_);
    std::copy_n(buffer_.data() + at_, size, to);
    at_ += size;
    return ssize_t(size);
  }

  ssize_t write(const char* from, size_t size) override {
    for (size_t done = 0; done < size;) {
      if (!wait(POLLOUT, request_end_timeout)) return -1;
      const ssize_t count = ::send(socket_, from + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN && errno != EINTR) return -1;
      done += size_t(std::max<ssize_t>(count, 0));
    }
    return ssize_t(size);
  }

  /// Not used by the page; all clients are local.
  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip = "127.0.0.1", port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip = "127.0.0.1", port = 0; }
  socket_t socket() const override { return socket_; }

 private:
  bool wait(short event, std::chrono::milliseconds limit) const {
    while (listening_ != INVALID_SOCKET) {
      const auto start = Clock::now();
      pollfd socket{socket_, event, 0};
      const int found = ::poll(&socket, 1, int(poll_interval.count()));
      waited_ += Clock::now() - start;
      if (waited_ > (others_ > 0 ? std::min(limit, limit_if_others_wait) : limit)) return false;
      if (found > 0) return true;
    }
    return false;
  }

  int socket_;
  const std::atomic<size_t>& others_;
  const std::atomic<socket_t>& listening_;
  mutable Clock::duration waited_{};
  std::array<char, 4096> buffer_;
  size_t at_ = 0, end_ = 0, taken_ = 0;
};

/// httplib gives each connection a thread until it is closed, and restarts its timeout at each byte. Here a connection
/// has a total waiting time, which is short while others wait for a thread, so that slow clients cannot block the
/// server. Waiting connections are served newest first, because old ones are unlikely to send a request; beyond a limit
/// the oldest is closed.
class BoundedServer : public httplib::Server {
 public:
  BoundedServer() {
    new_task_queue = [this] { return new NewestFirst(waiting_); };
  }
  /// [bound] The library's backlog of five connections would delay further clients by a second.
  void let_many_connect() { ::listen(svr_sock_, SOMAXCONN); }

 private:
  bool process_and_close_socket(socket_t socket) override {
    BoundedStream stream(socket, waiting_, svr_sock_);
    bool closed = refuse_connection;
    while (!closed && stream.next_request() && process_request(stream, false, closed, nullptr)) {
    }
    ::shutdown(socket, SHUT_RDWR);
    ::close(socket);
    return true;
  }

  std::atomic<size_t> waiting_ = 0;  ///< connections without a thread
};

constexpr const char *address = "127.0.0.1", *label_path = "/api/label";
constexpr timespec signal_interval{0, 200'000'000};

/// Forbids access to other origins. Allows scripts to set styles, which dygraphs needs.
constexpr const char* policy =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Writes `length` bytes from `offset` of the parts as one text, many small parts together.
bool write_range(const std::vector<SharedText>& parts, size_t offset, size_t length, httplib::DataSink& sink) {
  std::string together;
  for (auto part = parts.begin(); part != parts.end() && length > 0; ++part) {
    const std::string_view rest = std::string_view(**part).substr(std::min(offset, (*part)->size())).substr(0, length);
    offset -= std::min(offset, (*part)->size());
    length -= rest.size();
    if (together.empty() && rest.size() >= max_threads) {
      if (!sink.write(rest.data(), rest.size())) return false;
      continue;
    }
    together += rest;
    if (together.size() < max_threads) continue;
    if (!sink.write(together.data(), together.size())) return false;
    together.clear();
  }
  return together.empty() || sink.write(together.data(), together.size());
}

/// Uses a content provider, because httplib would compress a text body with Brotli at its highest level, which takes a
/// second for what the loopback transfers in a millisecond.
void respond(httplib::Response& response, PageResponse answer) {
  response.status = answer.status;
  answer.more.insert(answer.more.begin(), std::make_shared<const std::string>(std::move(answer.body)));
  size_t size = 0;
  for (const SharedText& part : answer.more) size += part->size();
  response.set_content_provider(
      size, answer.type.c_str(),
      [parts = std::make_shared<const std::vector<SharedText>>(std::move(answer.more))](
          size_t offset, size_t length, httplib::DataSink& sink) { return write_range(*parts, offset, length, sink); });
}

/// A refusal, or nothing if the request may be answered.
std::optional<PageResponse> refusal_of(const httplib::Request& request, const std::optional<PageEditor>& editor) {
  const bool only_reads = request.method == "GET" || request.method == "HEAD";
  if (!is_own_page(request.get_header_value("Host"), request.get_header_value("Origin"), !only_reads))
    return PageResponse{403, "text/plain",
                        "this page answers to names of this machine only: http://localhost, http://127.0.0.1 and "
                        "http://[::1], with any port; from another machine, forward the port: ssh -L "
                        "8317:localhost:PORT HOST\n"};
  if (only_reads) return std::nullopt;
  if (request.method != "POST" || request.path != label_path || !editor)
    return PageResponse{405, "text/plain", "this page can only be read\n"};
  if (!same_secret(request.get_header_value("X-Edit-Token"), editor->token))
    return PageResponse{403, "text/plain",
                        "this page may not change runs: open the address that `ui --edit` printed\n"};
  return std::nullopt;
}

void set_up(httplib::Server& server, PageData& data, const std::optional<PageEditor>& editor) {
  // The library's default, SO_REUSEPORT, would share the port with another program instead of failing.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  server.set_tcp_nodelay(true);
  server.set_payload_max_length(editor ? max_request_bytes : 0);
  server.set_default_headers({{"Content-Security-Policy", policy},
                              {"X-Content-Type-Options", "nosniff"},
                              {"Cross-Origin-Resource-Policy", "same-origin"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cache-Control", "no-store"}});
  server.set_pre_routing_handler([&](const httplib::Request& request, httplib::Response& response) {
    const auto refusal = refusal_of(request, editor);
    if (!refusal) return httplib::Server::HandlerResponse::Unhandled;
    respond(response, *refusal);
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Post(label_path, [&editor](const httplib::Request& request, httplib::Response& response) {
    respond(response, handle_page_change([&] { editor->change(request.body); }));
  });
  server.Get(".*", [&data](const httplib::Request& request, httplib::Response& response) {
    respond(response, handle_page_request(data, request.path, {request.params.begin(), request.params.end()}));
  });
}

int bind_or_refuse(httplib::Server& server, int wanted) {
  errno = 0;
  const int port = wanted == 0 ? server.bind_to_any_port(address) : server.bind_to_port(address, wanted) ? wanted : -1;
  if (port > 0) return port;
  const std::string cause = errno == EADDRINUSE ? "it is in use" : std::strerror(errno);
  throw Error(ExitStatus::usage, "port " + std::to_string(wanted) + " of " + address + " is not available: " + cause +
                                     "; name another with --port N, or --port 0 for any free one");
}

}  // namespace

void serve_page(PageData& data, int wanted, const std::optional<PageEditor>& editor,
                const std::function<void(int)>& listening) {
  BoundedServer server;
  set_up(server, data, editor);
  const int port = bind_or_refuse(server, wanted);
  server.let_many_connect();

  // Blocked before the first thread starts, so that no server thread receives them. They stay blocked: some programs
  // (timeout) send a signal twice, and the second one would kill a process that is exiting normally.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::atomic<bool> ended = false;
  std::exception_ptr failure;
  std::thread listener([&] {
    try {
      server.listen_after_bind();
    } catch (...) {
      failure = std::current_exception();
    }
    ended = true;
  });
  listening(port);
  while (!ended && sigtimedwait(&ends, nullptr, &signal_interval) < 0) {
  }
  const bool socket_failed = ended;
  server.stop();
  listener.join();
  if (failure) std::rethrow_exception(failure);
  if (socket_failed) throw Error(ExitStatus::storage, "the page can no longer be served: its socket failed");
}

}  // namespace wmtp
