// Placement: the hosts on which a job's ranks run, and the address that each uses for communication.
//
// A rank uses the address of the interface that WMTP_INTERFACE names, else GLOO_SOCKET_IFNAME, both in the notation of
// NCCL_SOCKET_IFNAME, else its address on the route to rank 0. Where all ranks are on one host, neither matters. If it
// reached rank 0 over the loopback and others did not (rank 0 itself, if its host's name resolves to a loopback address
// there), it uses its address on the route to one of them.
#pragma once

#include <string>
#include <vector>

#include "comm/rank_environment.hpp"

namespace wmtp {

/// What a rank publishes about itself at the rendezvous.
struct RankLocation {
  std::string host;            ///< host_identity()
  std::string address;         ///< numeric; the one from which it reached rank 0, or of the chosen interface
  std::string interface = {};  ///< chosen by the user; empty: none

  std::string host_name() const { return host.substr(host.rfind('/') + 1); }
  std::string to_text() const;
  static RankLocation from_text(const std::string& text);
};

struct Placement {
  std::string address = "127.0.0.1";
  std::string interface = {};  ///< chosen by the user; empty: none
  int local_rank = 0, local_world_size = 1;
};

/// Error(usage) with this rank's address and the rendezvous' if no interface of the chosen ones exists, is up and has
/// an address.
void check_interface(const RankEnvironment& environment);

/// The place of this process, which reached rank 0 from `address`. [after check_interface]
RankLocation this_rank_location(const RankEnvironment& environment, const std::string& address);

/// NCCL_SOCKET_IFNAME for this process: the user's value, unless all ranks are on one host that lacks the interface;
/// else the chosen interface. "": NCCL chooses.
std::string nccl_interface(const RankEnvironment& environment, const Placement& placement);

/// `places`: of all ranks, by rank. Uses the launcher's local ranks if it sets them, otherwise counts ranks by host.
/// Error(usage) with both addresses if a chosen interface is the loopback and ranks on other hosts cannot reach it.
Placement compute_placement(const RankEnvironment& environment, const std::vector<RankLocation>& places);

/// The number of ranks on each host. Error(usage) naming the hosts and the setting `wanted_by` if the hosts have
/// different numbers of ranks, or the ranks of a host are not consecutive.
int64_t count_ranks_per_host(const std::vector<RankLocation>& places, const std::string& wanted_by);

/// Error(usage) with both addresses if this rank or rank 0 has chosen an interface, and this rank cannot reach rank 0
/// from its own. Takes at most two seconds.
void check_route(const RankEnvironment& environment, const std::vector<RankLocation>& places);

}  // namespace wmtp
