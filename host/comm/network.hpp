// Network: addresses of this host and connections to others; every wait has a time limit. No reverse look-ups.
//
// Addresses are numeric strings, IPv4 or IPv6 ("10.0.0.2", "fe80::1%eth0").
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/files.hpp"

namespace wmtp {

/// A non-blocking socket, or none; closed by the destructor.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  int fd() const { return fd_.get(); }

  std::string own_address() const;
  int port() const;  ///< of the local end
  /// Disables Nagle's algorithm (TCP_NODELAY).
  void disable_nagle() const;
  /// Enables keep-alive: a peer whose host or network fails is noticed within half a minute.
  void enable_keep_alive() const;
  // std::runtime_error with the cause if the peer has closed or nothing is transferred until `end`.
  void send_all(const std::string& bytes, std::chrono::steady_clock::time_point end) const;
  /// Appends at least one received byte, at most `most`.
  void receive(std::string& bytes, size_t most, std::chrono::steady_clock::time_point end) const;

 private:
  FileDescriptor fd_;
};

/// Whether the last call on a non-blocking socket failed only because it would have waited, or was interrupted.
bool would_block();

/// Tries each of the host's addresses once; returns no socket, and the cause, if none accepts.
Socket connected_to(const std::string& host, int port, std::chrono::milliseconds limit, std::string& cause);

/// Repeats `attempt` until it returns a connection or `timeout` has passed. `on_wait` is called once, after five
/// seconds, with the cause of the delay. Error(peer) names `place` and the cause.
Socket connect_with_retry(const std::string& place,
                          const std::function<Socket(std::chrono::milliseconds limit, std::string& cause)>& attempt,
                          std::chrono::milliseconds timeout,
                          const std::function<void(const std::string& cause)>& on_wait);

/// Binds a port of 127.0.0.1 (0: any free one) without listening: other programs cannot take it, but
/// listen_on_address() can listen on it; tries that once. Errors as listen_on_address().
Socket reserved_loopback_port(int port);

/// Listens on this address of this host. Error(usage) if the port is in use, Error(peer) on other failures, and if the
/// host cannot reach itself through its loopback interface.
Socket listen_on_address(const std::string& address, int port);
/// Listens on the first non-loopback address of `host`, a name of this host. If there is none, because the name means
/// the loopback or a forwarding machine, listens on all addresses. Port 0: any free one. Errors as above.
Socket listen_on_host(const std::string& host, int port);

/// The source address for sending from this host to `address`; sends nothing. Empty if there is no route.
std::string source_address_for(const std::string& address);

/// Whether packets from this host's address `own` reach `other`, and its answers return: `other` accepts or refuses a
/// connection within two seconds. `cause`: why not.
bool can_reach(const std::string& own, const std::string& other, int port, std::string& cause);

struct Interface {
  std::string name;
  std::string address;  ///< its first one, IPv4 before IPv6; empty: none
  bool is_up = false;
};
std::vector<Interface> list_interfaces();

bool is_loopback(const std::string& address);

/// The same for all processes of a host (or of a container with its own hostname), and unique to it.
std::string host_identity();

}  // namespace wmtp
