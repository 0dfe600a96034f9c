// Network: addresses of this host and connections to others, with a limit on every wait. Knows no LibTorch. No address
// is ever looked up to find its name.
//
// Addresses are numeric texts, IPv4 or IPv6 ("10.0.0.2", "fe80::1%eth0").
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

namespace wmtp {

/// A descriptor of this process, or none; it does not block, and is closed with this.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  int fd() const { return fd_; }

  std::string own_address() const;
  int port() const;  ///< of this end
  /// Small messages are not held back to be sent together.
  void send_at_once() const;
  /// Another end that vanishes without a word, with its host or its network, is noticed within half a minute.
  void notice_silence() const;
  // std::runtime_error with the cause when the other end has closed or nothing moves until `end`.
  void send_all(const std::string& bytes, std::chrono::steady_clock::time_point end) const;
  /// Appends what came: at least one byte, and at most so many.
  void receive(std::string& bytes, size_t most, std::chrono::steady_clock::time_point end) const;

 private:
  int fd_;
};

/// Tries once each of the host's addresses; no socket, and the cause, when none takes the connection.
Socket connected_to(const std::string& host, int port, std::chrono::milliseconds limit, std::string& cause);

/// Tries again and again until an attempt gives a connection or `timeout` has passed. `on_wait` is called once, after
/// some seconds, with the cause of the delay. Error(peer) names `place` and the cause.
Socket connected_in_time(const std::string& place,
                         const std::function<Socket(std::chrono::milliseconds limit, std::string& cause)>& attempt,
                         std::chrono::milliseconds timeout,
                         const std::function<void(const std::string& cause)>& on_wait);

/// Binds a port of 127.0.0.1 (0: any that is free) without listening: other programs cannot take it, but a listener of
/// listener_at() can. Tries such a listener once. Errors as listener_at().
Socket reserved_loopback_port(int port);

/// Listens on this address of this host. Error(usage) when the port is in use, Error(peer) when it cannot, or when a
/// loopback leads nowhere.
Socket listener_at(const std::string& address, int port);
/// Listens where others find `host`, a name of this host: on its first address that is none of the loopback. Where
/// there is none, since the name means the loopback here or another machine that passes connections on, on all
/// addresses. Port 0: any that is free. Errors as above.
Socket listener_as(const std::string& host, int port);

/// The address from which this host would send to another; nothing is sent. Empty when there is no route.
std::string own_address_on_route_to(const std::string& address);

/// The first address of a network interface, IPv4 before IPv6. `wanted_by` names the setting in Error(usage), which
/// lists the interfaces that there are.
std::string address_of_interface(const std::string& name, const std::string& wanted_by);

bool is_loopback(const std::string& address);

/// The same on all processes of a host, or of a container with a name of its own, and on no other.
std::string identity_of_this_host();

}  // namespace wmtp
