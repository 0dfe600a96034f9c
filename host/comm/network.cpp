#include "comm/network.hpp"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>

#include "base/error.hpp"

namespace wmtp {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds min_pause{5}, max_pause{200};
constexpr milliseconds attempt_timeout{2000};  // a host that drops packets must not use up all the time
constexpr milliseconds notice_delay{5000};

Socket new_socket(int family, int type) { return Socket(socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

std::string numeric(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST];
  return getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

/// False at the deadline.
bool wait_for(int fd, short wanted, Clock::time_point end) {
  const auto left = std::chrono::ceil<milliseconds>(end - Clock::now()).count();
  pollfd one{fd, wanted, 0};
  return left > 0 && (poll(&one, 1, int(std::min<int64_t>(left, INT_MAX))) > 0 || errno == EINTR);
}

[[noreturn]] void throw_timeout() { throw std::runtime_error("no data in time"); }

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Null, with the cause, if the name cannot be resolved.
Addresses resolve(const std::string& host, int port, int type, std::string& cause) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = type;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) cause = std::string("the name cannot be resolved: ") + gai_strerror(error);
  return {found, freeaddrinfo};
}

/// 0, or the error of the connection attempt.
int connect_within(int fd, const addrinfo& to, milliseconds limit) {
  if (connect(fd, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd wanted{fd, POLLOUT, 0};
  if (poll(&wanted, 1, int(limit.count())) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

std::string place_text(const std::string& address, int port) {
  return (address.find(':') == std::string::npos ? address : "[" + address + "]") + ":" + std::to_string(port);
}

/// On failure returns no socket and sets errno.
Socket try_to_bind(const addrinfo& at, bool listens) {
  Socket socket = new_socket(at.ai_family, SOCK_STREAM);
  const int yes = 1, no = 0;
  if (socket.fd() < 0) return socket;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (at.ai_family == AF_INET6) setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (bind(socket.fd(), at.ai_addr, at.ai_addrlen) == 0 && (!listens || listen(socket.fd(), SOMAXCONN) == 0))
    return socket;
  const int error = errno;
  socket = Socket();
  errno = error;
  return socket;
}

[[noreturn]] void throw_no_listener(const std::string& address, int port, int error) {
  const std::string place = place_text(address, port);
  if (error == EADDRINUSE)
    throw Error(ExitStatus::usage, "rendezvous: port " + place + " is in use; set MASTER_PORT to a free one");
  throw Error(ExitStatus::peer, "rendezvous: cannot listen on " + place + ": " + std::strerror(error));
}

struct InterfaceList {
  ifaddrs* first = nullptr;
  InterfaceList() { getifaddrs(&first); }
  ~InterfaceList() {
    if (first) freeifaddrs(first);
  }
  InterfaceList(const InterfaceList&) = delete;
};

std::string first_line_of(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

}  // namespace

std::string Socket::own_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  return getsockname(fd(), plain, &size) == 0 ? numeric(plain, size) : "";
}

int Socket::port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

void Socket::disable_nagle() const {
  const int yes = 1;
  setsockopt(fd(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

void Socket::enable_keep_alive() const {
  constexpr int yes = 1, seconds_until_probe = 10, seconds_between = 5, times = 3;
  setsockopt(fd(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(fd(), IPPROTO_TCP, TCP_KEEPIDLE, &seconds_until_probe, sizeof seconds_until_probe);
  setsockopt(fd(), IPPROTO_TCP, TCP_KEEPINTVL, &seconds_between, sizeof seconds_between);
  setsockopt(fd(), IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

void Socket::send_all(const std::string& bytes, Clock::time_point end) const {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = send(fd(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count >= 0) {
      sent += size_t(count);
      continue;
    }
    if (!would_block()) throw std::runtime_error(std::strerror(errno));
    if (!wait_for(fd(), POLLOUT, end)) throw_timeout();
  }
}

void Socket::receive(std::string& bytes, size_t most, Clock::time_point end) const {
  char piece[1 << 16];
  while (true) {
    const ssize_t count = recv(fd(), piece, std::min(most, sizeof piece), 0);
    if (count > 0) {
      bytes.append(piece, size_t(count));
      return;
    }
    if (count == 0) throw std::runtime_error("the peer has closed the connection");
    if (!would_block()) throw std::runtime_error(std::strerror(errno));
    if (!wait_for(fd(), POLLIN, end)) throw_timeout();
  }
}

Socket connected_to(const std::string& host, int port, milliseconds limit, std::string& cause) {
  const Addresses addresses = resolve(host, port, SOCK_STREAM, cause);
  for (const addrinfo* to = addresses.get(); to; to = to->ai_next) {
    Socket socket = new_socket(to->ai_family, SOCK_STREAM);
    const int error = socket.fd() < 0 ? errno : connect_within(socket.fd(), *to, std::min(limit, attempt_timeout));
    if (error == 0) return socket;
    const std::string number = numeric(to->ai_addr, to->ai_addrlen);
    cause = (number == host ? "" : number + ": ") + std::strerror(error);
  }
  return Socket();
}

Socket connect_with_retry(const std::string& place,
                          const std::function<Socket(milliseconds limit, std::string& cause)>& attempt,
                          milliseconds timeout, const std::function<void(const std::string& cause)>& on_wait) {
  const auto begun = Clock::now();
  bool noticed = false;
  while (true) {
    std::string cause;
    const auto left = timeout - std::chrono::duration_cast<milliseconds>(Clock::now() - begun);
    Socket socket = attempt(std::max(left, milliseconds{1}), cause);
    if (socket.fd() >= 0) return socket;
    const auto passed = Clock::now() - begun;
    if (passed >= timeout)
      throw Error(ExitStatus::peer, "cannot connect to " + place + " within " +
                                        std::to_string(std::chrono::ceil<std::chrono::seconds>(timeout).count()) +
                                        " s (" + cause + "); check that rank 0 runs, and MASTER_ADDR");
    if (!noticed && passed >= notice_delay) {
      noticed = true;
      on_wait(cause);
    }
    const auto tenth = std::chrono::duration_cast<milliseconds>(passed / 10);
    std::this_thread::sleep_for(std::clamp(tenth, min_pause, max_pause));
  }
}

Socket reserved_loopback_port(int port) {
  const std::string address = "127.0.0.1";
  std::string cause;
  const Addresses at = resolve(address, port, SOCK_STREAM, cause);
  Socket socket = at ? try_to_bind(*at, /*listens=*/false) : Socket();
  if (socket.fd() < 0) throw_no_listener(address, port, errno);
  listen_on_address(address, socket.port());
  return socket;
}

Socket listen_on_address(const std::string& address, int port) {
  std::string cause;
  const Addresses at = resolve(address, port, SOCK_STREAM, cause);
  if (!at) throw Error(ExitStatus::peer, "rendezvous: cannot listen on " + place_text(address, port) + ": " + cause);
  Socket socket = try_to_bind(*at, /*listens=*/true);
  if (socket.fd() < 0) throw_no_listener(address, port, errno);
  if (is_loopback(address) && connected_to(address, socket.port(), attempt_timeout, cause).fd() < 0)
    throw Error(ExitStatus::peer, "rendezvous: this host cannot reach itself on " + address + ": " + cause +
                                      "; is the loopback interface up?");
  return socket;
}

Socket listen_on_host(const std::string& host, int port) {
  std::string cause;
  const Addresses addresses = resolve(host, port, SOCK_STREAM, cause);
  for (const addrinfo* at = addresses.get(); at; at = at->ai_next) {
    const std::string address = numeric(at->ai_addr, at->ai_addrlen);
    if (is_loopback(address)) continue;
    Socket socket = try_to_bind(*at, /*listens=*/true);
    if (socket.fd() >= 0) return socket;
    if (errno == EADDRINUSE) throw_no_listener(address, port, errno);
  }
  for (const char* every : {"::", "0.0.0.0"}) {
    const Addresses all = resolve(every, port, SOCK_STREAM, cause);
    Socket socket = all ? try_to_bind(*all, /*listens=*/true) : Socket();
    if (socket.fd() >= 0) return socket;
    if (errno == EADDRINUSE) throw_no_listener(every, port, errno);
  }
  throw_no_listener("0.0.0.0", port, errno);
}

std::string source_address_for(const std::string& address) {
  std::string cause;
  const Addresses to = resolve(address, 9, SOCK_DGRAM, cause);
  if (!to) return {};
  const Socket socket = new_socket(to->ai_family, SOCK_DGRAM);
  if (socket.fd() < 0 || connect(socket.fd(), to->ai_addr, to->ai_addrlen) != 0) return {};
  return socket.own_address();
}

bool can_reach(const std::string& own, const std::string& other, int port, std::string& cause) {
  const Addresses from = resolve(own, 0, SOCK_STREAM, cause), to = resolve(other, port, SOCK_STREAM, cause);
  if (!from || !to) return false;
  cause = "they are of different families";  // IPv4 and IPv6
  for (const addrinfo* one = to.get(); one; one = one->ai_next) {
    if (one->ai_family != from->ai_family) continue;
    const Socket socket = try_to_bind(*from, /*listens=*/false);
    const int error = socket.fd() < 0 ? errno : connect_within(socket.fd(), *one, attempt_timeout);
    if (error == 0 || error == ECONNREFUSED) return true;
    cause = std::strerror(error);
  }
  return false;
}

std::vector<Interface> list_interfaces() {
  const InterfaceList list;
  std::vector<Interface> all;
  for (const ifaddrs* one = list.first; one; one = one->ifa_next) {
    const auto is_same = [&](const Interface& known) { return known.name == one->ifa_name; };
    auto known = std::find_if(all.begin(), all.end(), is_same);
    if (known == all.end()) known = all.insert(known, {one->ifa_name, "", (one->ifa_flags & IFF_UP) != 0});
    const int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
    const bool is_first_v4 = family == AF_INET && known->address.find('.') == std::string::npos;
    if (is_first_v4 || (family == AF_INET6 && known->address.empty()))
      known->address = numeric(one->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  }
  return all;
}

bool is_loopback(const std::string& address) { return address == "::1" || address.starts_with("127."); }

std::string host_identity() {
  return first_line_of("/proc/sys/kernel/random/boot_id") + "/" + first_line_of("/proc/sys/kernel/hostname");
}

}  // namespace wmtp
