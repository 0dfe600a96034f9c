// Placement: on which hosts the ranks of a job run, and from which address each exchanges with the others. Plain values;
// knows no LibTorch.
//
// A rank exchanges from the address by which it reached rank 0, or from that of the interface that GLOO_SOCKET_IFNAME
// names. Where it reached rank 0 over the loopback and others did not (rank 0 itself, if the name of its host is a
// loopback address there), it takes its address on the route to one of those.
#pragma once

#include <string>
#include <vector>

#include "core/rendezvous/rank_environment.hpp"

namespace wmtp {

/// What a rank says of itself at the rendezvous.
struct Place {
  std::string host;     ///< identity_of_this_host()
  std::string address;  ///< numeric; by which it reached rank 0, or of the interface that it was given
  bool chosen = false;  ///< by GLOO_SOCKET_IFNAME

  std::string to_text() const;
  static Place from_text(const std::string& text);
};

struct Placement {
  std::string address = "127.0.0.1";
  int local_rank = 0, local_world_size = 1;
};

/// This process, which reached rank 0 from `address`. Error(usage) when GLOO_SOCKET_IFNAME names no single interface
/// with an address.
Place this_place(const std::string& address);

/// `places` of all ranks, by rank. What the launcher said of local ranks is taken as it is; what it left out is counted
/// by hosts. Error(usage) when a chosen interface is one that ranks of other hosts cannot reach.
Placement placement_of(const RankEnvironment& environment, const std::vector<Place>& places);

}  // namespace wmtp
