#include "dist/network.hpp"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include "base/error.hpp"

namespace wmtp {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds between_attempts{5};
constexpr milliseconds one_attempt{2000};   // a host that drops packets must not take all of the time
constexpr milliseconds before_notice{5000};

class Socket {
 public:
  Socket(int family, int type) : fd_(socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string numeric(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST];
  return getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

std::string own_address(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  return getsockname(fd, plain, &size) == 0 ? numeric(plain, size) : "";
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Null, with the cause, when the name cannot be resolved.
Addresses resolve(const std::string& host, int port, int type, std::string& cause) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = type;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) cause = std::string("the name cannot be resolved: ") + gai_strerror(error);
  return {found, freeaddrinfo};
}

/// 0, or the error of an attempt to connect.
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

/// This end's address, or nothing with the cause.
std::string try_to_reach(const std::string& host, int port, milliseconds limit, std::string& cause) {
  const Addresses addresses = resolve(host, port, SOCK_STREAM, cause);
  for (const addrinfo* to = addresses.get(); to; to = to->ai_next) {
    const Socket socket(to->ai_family, SOCK_STREAM);
    const int error = socket.fd() < 0 ? errno : connect_within(socket.fd(), *to, limit);
    if (error == 0) return own_address(socket.fd());
    const std::string number = numeric(to->ai_addr, to->ai_addrlen);
    cause = (number == host ? "" : number + ": ") + std::strerror(error);
  }
  return {};
}

struct Interfaces {
  ifaddrs* first = nullptr;
  Interfaces() { getifaddrs(&first); }
  ~Interfaces() {
    if (first) freeifaddrs(first);
  }
  Interfaces(const Interfaces&) = delete;
};

std::string first_line_of(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

}  // namespace

std::string own_address_towards(const std::string& host, int port, milliseconds timeout,
                                const std::function<void(const std::string& cause)>& on_wait) {
  const auto begun = Clock::now();
  bool noticed = false;
  while (true) {
    std::string cause;
    const auto left = timeout - std::chrono::duration_cast<milliseconds>(Clock::now() - begun);
    const std::string own = try_to_reach(host, port, std::clamp(left, milliseconds{1}, one_attempt), cause);
    if (!own.empty()) return own;
    const auto passed = Clock::now() - begun;
    if (passed >= timeout)
      throw Error(ExitStatus::peer, "cannot connect to " + host + ":" + std::to_string(port) + " within " +
                                        std::to_string(std::chrono::ceil<std::chrono::seconds>(timeout).count()) +
                                        " s (" + cause + ")");
    if (!noticed && passed >= before_notice) {
      noticed = true;
      on_wait(cause);
    }
    std::this_thread::sleep_for(between_attempts);
  }
}

std::string own_address_on_route_to(const std::string& address) {
  std::string cause;
  const Addresses to = resolve(address, 9, SOCK_DGRAM, cause);
  if (!to) return {};
  const Socket socket(to->ai_family, SOCK_DGRAM);
  if (socket.fd() < 0 || connect(socket.fd(), to->ai_addr, to->ai_addrlen) != 0) return {};
  return own_address(socket.fd());
}

std::string address_of_interface(const std::string& name, const std::string& wanted_by) {
  const Interfaces interfaces;
  std::set<std::string> names;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = interfaces.first; one; one = one->ifa_next) {
      if (!one->ifa_addr || one->ifa_addr->sa_family != family) continue;
      names.insert(one->ifa_name);
      if (name == one->ifa_name)
        return numeric(one->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    }
  }
  std::string all;
  for (const std::string& one : names) all += (all.empty() ? "" : ", ") + one;
  throw Error(ExitStatus::usage, wanted_by + " is '" + name + "', but this host has no interface of that name with an " +
                                     "address; it has " + all);
}

bool is_loopback(const std::string& address) { return address == "::1" || address.starts_with("127."); }

std::string identity_of_this_host() {
  return first_line_of("/proc/sys/kernel/random/boot_id") + "/" + first_line_of("/proc/sys/kernel/hostname");
}

}  // namespace wmtp
