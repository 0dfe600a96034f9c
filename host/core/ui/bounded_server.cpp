// See bounded_server.hpp.
#include "core/ui/bounded_server.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace wmtp {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr size_t threads = 32, most_waiting = 256;
constexpr size_t most_of_request = 64 << 10;  // bytes, all headers together
// What a client may let a thread wait for in all: to begin a request, then until it is answered.
constexpr std::chrono::milliseconds to_begin = 1s, to_end = 10s, if_others_wait = 500ms, look_up = 50ms;

thread_local bool turned_away = false;

class NewestFirst : public httplib::TaskQueue {
 public:
  explicit NewestFirst(std::atomic<size_t>& count) : count_(count) {
    for (size_t i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
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
    turned_away = true;
    oldest();  // the library closes a connection only after its turn
    turned_away = false;
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

/// A socket, and the patience with who is at its other end.
class BoundedStream : public httplib::Stream {
 public:
  BoundedStream(int socket, const std::atomic<size_t>& others, const std::atomic<socket_t>& listening)
      : socket_(socket), others_(others), listening_(listening) {}

  /// false: there is none in time.
  bool next_request() {
    waited_ = 0ms;
    taken_ = end_ - at_;
    return at_ < end_ || wait(POLLIN, to_begin);
  }

  bool is_readable() const override { return at_ < end_ || wait(POLLIN, to_end); }
  bool is_writable() const override { return wait(POLLOUT, to_end); }

  ssize_t read(char* to, size_t size) override {
    if (at_ == end_) {
      if (taken_ > most_of_request || !wait(POLLIN, to_end)) return -1;
      const ssize_t count = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (count <= 0) return count;
      at_ = 0;
      end_ = static_cast<size_t>(count);
      taken_ += end_;
    }
    size = std::min(size, end_ - at_);
    std::copy_n(buffer_.data() + at_, size, to);
    at_ += size;
    return static_cast<ssize_t>(size);
  }

  ssize_t write(const char* from, size_t size) override {
    for (size_t done = 0; done < size;) {
      if (!wait(POLLOUT, to_end)) return -1;
      const ssize_t count = ::send(socket_, from + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN && errno != EINTR) return -1;
      done += static_cast<size_t>(std::max<ssize_t>(count, 0));
    }
    return static_cast<ssize_t>(size);
  }

  /// The page is for this machine alone, and asks for neither.
  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip = "127.0.0.1", port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip = "127.0.0.1", port = 0; }
  socket_t socket() const override { return socket_; }

 private:
  bool wait(short event, std::chrono::milliseconds patience) const {
    while (listening_ != INVALID_SOCKET) {
      const auto begun = Clock::now();
      pollfd socket{socket_, event, 0};
      const int found = ::poll(&socket, 1, static_cast<int>(look_up.count()));
      waited_ += Clock::now() - begun;
      if (waited_ > (others_ > 0 ? std::min(patience, if_others_wait) : patience)) return false;
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

}  // namespace

BoundedServer::BoundedServer() {
  new_task_queue = [this] { return new NewestFirst(waiting_); };
}

void BoundedServer::let_many_connect() { ::listen(svr_sock_, SOMAXCONN); }

bool BoundedServer::process_and_close_socket(socket_t socket) {
  BoundedStream stream(socket, waiting_, svr_sock_);
  bool closed = turned_away;
  while (!closed && stream.next_request() && process_request(stream, false, closed, nullptr)) {
  }
  ::shutdown(socket, SHUT_RDWR);
  ::close(socket);
  return true;
}

}  // namespace wmtp
