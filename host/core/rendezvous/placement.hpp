// Placement: the hosts on which a job's ranks run, and the address that each uses for communication. Plain values.
//
// A rank uses the address from which it reached rank 0, or that of the interface GLOO_SOCKET_IFNAME. If it reached rank
// 0 over the loopback and others did not (rank 0 itself, if its host's name resolves to a loopback address there), it
// uses its address on the route to one of them.
#pragma once

#include <string>
#include <vector>

#include "core/rendezvous/rank_environment.hpp"

namespace wmtp {

/// What a rank publishes about itself at the rendezvous.
struct Place {
  std::string host;     ///< identity_of_this_host()
  std::string address;  ///< numeric; the one from which it reached rank 0, or of the chosen interface
  bool chosen = false;  ///< by GLOO_SOCKET_IFNAME

  std::string to_text() const;
  static Place from_text(const std::string& text);
};

struct Placement {
  std::string address = "127.0.0.1";
  int local_rank = 0, local_world_size = 1;
};

/// The place of this process, which reached rank 0 from `address`. Error(usage) if GLOO_SOCKET_IFNAME is not a single
/// interface with an address.
Place this_place(const std::string& address);

/// `places`: of all ranks, by rank. Uses the launcher's local ranks if it sets them, otherwise counts ranks by host.
/// Error(usage) if ranks on other hosts cannot reach a chosen interface.
Placement placement_of(const RankEnvironment& environment, const std::vector<Place>& places);

}  // namespace wmtp
