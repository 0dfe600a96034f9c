// Network: addresses of this host and connections to others, with a limit on every wait. Knows no LibTorch.
//
// Addresses are numeric texts, IPv4 or IPv6 ("10.0.0.2", "fe80::1%eth0").
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace wmtp {

/// Connects to host:port, again and again until it succeeds or `timeout` has passed, and returns the address of this
/// end of the connection. `on_wait` is called once, after some seconds, with the cause of the delay. Error(peer) names
/// the address and the cause.
std::string own_address_towards(const std::string& host, int port, std::chrono::milliseconds timeout,
                                const std::function<void(const std::string& cause)>& on_wait);

/// The address from which this host would send to another; nothing is sent. Empty when there is no route.
std::string own_address_on_route_to(const std::string& address);

/// The first address of a network interface, IPv4 before IPv6. `wanted_by` names the setting in Error(usage), which
/// lists the interfaces that there are.
std::string address_of_interface(const std::string& name, const std::string& wanted_by);

bool is_loopback(const std::string& address);

/// The same on all processes of a host, or of a container with a name of its own, and on no other.
std::string identity_of_this_host();

}  // namespace wmtp
