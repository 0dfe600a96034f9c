#include "comm/rendezvous.hpp"

namespace wmtp {

std::unique_ptr<StoreServer> serve_rendezvous(const RankEnvironment& environment, const RendezvousAddress& place) {
  const RendezvousAddress here = reachable_address(environment, place);
  return std::make_unique<StoreServer>(
      environment.on_one_host() ? listen_on_address(here.host, here.port) : listen_on_host(here.host, here.port),
      here.token);
}

RendezvousAddress reachable_address(const RankEnvironment& environment, RendezvousAddress place) {
  if (environment.on_one_host() && !is_loopback(place.host)) place.host = "127.0.0.1";
  return place;
}

RendezvousAddress rendezvous_address(const RankEnvironment& environment) {
  return {environment.master_addr, environment.master_port, environment.token};
}

std::unique_ptr<StoreClient> join_rendezvous(const RankEnvironment& environment, std::chrono::milliseconds timeout,
                                             const std::function<void(const std::string& cause)>& on_wait) {
  const RendezvousAddress place = reachable_address(environment, rendezvous_address(environment));
  return std::make_unique<StoreClient>(
      rendezvous_text(environment), [&] { return place; }, timeout, on_wait);
}

std::string ended_key(int rank) { return "ended/" + std::to_string(rank); }

std::string rendezvous_text(const RankEnvironment& environment) {
  return environment.master_addr + ":" + std::to_string(environment.master_port);
}

}  // namespace wmtp
