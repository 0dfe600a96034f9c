#include "core/rendezvous/placement.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/error.hpp"
#include "core/rendezvous/network.hpp"

namespace wmtp {
namespace {

constexpr const char* interface_variable = "GLOO_SOCKET_IFNAME";

/// The first place that is not on the loopback, or null.
const Place* routable(const std::vector<Place>& places) {
  const auto found = std::find_if(places.begin(), places.end(), [](const Place& p) { return !is_loopback(p.address); });
  return found == places.end() ? nullptr : &*found;
}

std::string address_among(const Place& own, int rank, const std::vector<Place>& places) {
  const Place* other = is_loopback(own.address) ? routable(places) : nullptr;
  if (!other) return own.address;
  if (own.chosen)
    throw Error(ExitStatus::usage, std::string(interface_variable) + ": rank " + std::to_string(rank) +
                                       " would communicate from " + own.address + ", which the rank at " +
                                       other->address +
                                       " cannot reach; set it to an interface of the network between the hosts");
  const std::string found = own_address_on_route_to(other->address);
  return found.empty() ? own.address : found;
}

}  // namespace

std::string Place::to_text() const { return host + " " + address + (chosen ? " chosen" : ""); }

Place Place::from_text(const std::string& text) {
  const size_t first = text.find(' '), second = text.find(' ', first + 1);
  return {text.substr(0, first), text.substr(first + 1, second - first - 1), second != std::string::npos};
}

Place this_place(const std::string& address) {
  const char* name = std::getenv(interface_variable);
  if (!name || !*name) return {identity_of_this_host(), address, false};
  return {identity_of_this_host(), address_of_interface(name, interface_variable), true};
}

Placement placement_of(const RankEnvironment& environment, const std::vector<Place>& places) {
  const auto here = places.begin() + environment.rank;
  const auto on_this_host = [&](const Place& place) { return place.host == here->host; };
  Placement placement;
  placement.address = address_among(*here, environment.rank, places);
  placement.local_rank = environment.local_rank.value_or(int(std::count_if(places.begin(), here, on_this_host)));
  placement.local_world_size =
      environment.local_world_size.value_or(int(std::count_if(places.begin(), places.end(), on_this_host)));
  return placement;
}

}  // namespace wmtp
