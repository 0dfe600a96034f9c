#include "comm/store_server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "base/secret.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr int accepts_in_a_row = 16;  // before known clients are served
constexpr std::chrono::milliseconds pause_without_descriptors{10};

Socket eventfd_socket() {
  Socket wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.fd() < 0) throw Error(ExitStatus::storage, std::string("cannot create an eventfd: ") + std::strerror(errno));
  return wake;
}

int64_t integer(const std::string& text) {
  if (const auto number = parsed_number(text)) return *number;
  throw std::runtime_error("not an integer");
}

}  // namespace

StoreServer::StoreServer(Socket listener, const std::string& token, std::chrono::milliseconds greeting_timeout)
    : listener_(std::move(listener)),
      wake_(eventfd_socket()),
      greeting_timeout_(greeting_timeout),
      wanted_greeting_(clients_greeting(token)),
      own_greeting_(servers_greeting(token)),
      thread_([this] { serve(); }) {}

StoreServer::~StoreServer() {
  eventfd_write(wake_.fd(), 1);
  thread_.join();
}

void StoreServer::serve() {
  while (true) {
    std::vector<pollfd> polled{{wake_.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    for (const Connection& one : connections_)
      polled.push_back({one.socket.fd(), short(one.out.empty() ? POLLIN : POLLOUT), 0});
    if (poll(polled.data(), polled.size(), milliseconds_to_next_deadline()) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    auto events = polled.begin() + 2;
    for (auto one = connections_.begin(); one != connections_.end(); ++events) {
      if (handle(*one, events->revents)) {
        ++one;
        continue;
      }
      if (!one->set_when_closed.empty()) entries_[one->set_when_closed];
      one = connections_.erase(one);
    }
    if (polled[1].revents != 0) accept_some();
  }
}

int StoreServer::milliseconds_to_next_deadline() const {
  const auto oldest = std::find_if(connections_.begin(), connections_.end(),
                                   [](const Connection& one) { return !one.is_authenticated; });
  if (oldest == connections_.end()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(oldest->greeting_deadline - Clock::now());
  return int(std::max<int64_t>(0, left.count()));
}

void StoreServer::accept_some() {
  for (int i = 0; i < accepts_in_a_row; ++i) {
    Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.fd() < 0) {
      const bool none_left = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      if (none_left && !drop_oldest_unauthenticated()) std::this_thread::sleep_for(pause_without_descriptors);
      return;
    }
    socket.disable_nagle();
    socket.enable_keep_alive();
    const auto is_unauthenticated = [](const Connection& one) { return !one.is_authenticated; };
    if (std::count_if(connections_.begin(), connections_.end(), is_unauthenticated) >= max_unauthenticated)
      drop_oldest_unauthenticated();
    connections_.push_back({std::move(socket), Clock::now() + greeting_timeout_});
  }
}

bool StoreServer::drop_oldest_unauthenticated() {
  const auto oldest = std::find_if(connections_.begin(), connections_.end(),
                                   [](const Connection& one) { return !one.is_authenticated; });
  if (oldest == connections_.end()) return false;
  connections_.erase(oldest);
  return true;
}

/// Receives and sends what is possible without blocking. False if the connection has closed.
bool StoreServer::handle(Connection& connection, short events) {
  try {
    if (!connection.is_authenticated && Clock::now() >= connection.greeting_deadline) return false;
    if (events == 0) return true;
    if (events & POLLOUT) return send_some(connection);
    char piece[1 << 16];
    const size_t room = connection.is_authenticated ? sizeof piece : greeting_size - connection.in.size();
    const ssize_t got = recv(connection.socket.fd(), piece, room, 0);
    if (got <= 0) return got < 0 && would_block();
    connection.in.append(piece, size_t(got));
    if (!connection.is_authenticated) return connection.in.size() < greeting_size || greet(connection);
    while (const auto request = take_message(connection.in)) connection.out += encoded(reply_to(connection, *request));
    return send_some(connection);
  } catch (const std::exception&) {  // an invalid message, or out of memory
    return false;
  }
}

bool StoreServer::greet(Connection& connection) {
  connection.is_authenticated = same_secret(connection.in, wanted_greeting_);
  connection.in.clear();
  connection.out = connection.is_authenticated ? own_greeting_ : refusing_greeting();
  return send_some(connection) && connection.is_authenticated;
}

bool StoreServer::send_some(Connection& connection) {
  while (!connection.out.empty()) {
    const ssize_t sent = send(connection.socket.fd(), connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
    if (sent < 0) return would_block();
    connection.out.erase(0, size_t(sent));
  }
  return true;
}

Message StoreServer::reply_to(Connection& connection, const Message& request) {
  const std::string& what = request.at(0);
  if (what == "check") {
    const auto is_there = [this](const std::string& key) { return entries_.contains(key); };
    return {std::all_of(request.begin() + 1, request.end(), is_there) ? "yes" : "no"};
  }
  if (what == "count") return {std::to_string(entries_.size())};
  const std::string& key = request.at(1);
  if (what == "set_when_closed") {
    connection.set_when_closed = key;
    return {};
  }
  const auto entry = entries_.find(key);
  if (what == "get") return entry == entries_.end() ? Message{} : Message{entry->second};
  if (what == "delete") return {entries_.erase(key) > 0 ? "yes" : "no"};
  const std::string& value = request.at(2);
  if (what == "set") {
    entries_[key] = value;
    return {};
  }
  if (what == "add") {
    const int64_t before = entry == entries_.end() ? 0 : integer(entry->second);
    return {entries_[key] = std::to_string(before + integer(value))};
  }
  if (what != "swap") throw std::runtime_error("unknown request");
  // As in c10d's stores, a missing entry counts as empty.
  if (entry == entries_.end() ? !value.empty() : entry->second != value)
    return {entry == entries_.end() ? value : entry->second};
  return {entries_[key] = request.at(3)};
}

}  // namespace wmtp
