// Rendezvous: where a job's store listens, and how a rank connects to it.
//
// Rank 0 serves it at MASTER_PORT: on the loopback if all ranks are on one host, otherwise on MASTER_ADDR. Under
// torchrun, whose agent serves its own store there, rank 0 uses a free port and publishes it in the agent's store
// (comm/torch/job_store.hpp).
#pragma once

#include <memory>

#include "comm/rank_environment.hpp"
#include "comm/store_client.hpp"
#include "comm/store_server.hpp"

namespace wmtp {

/// Serves at `place`, whose host is a name of this host; port 0: any free one. Error(usage) if in use. [rank 0]
std::unique_ptr<StoreServer> serve_rendezvous(const RankEnvironment& environment, const RendezvousAddress& place);

/// The address at which this rank can reach `place`.
RendezvousAddress reachable_address(const RankEnvironment& environment, RendezvousAddress place);

/// MASTER_ADDR and MASTER_PORT.
RendezvousAddress rendezvous_address(const RankEnvironment& environment);

/// Connects to the rendezvous at MASTER_PORT. Errors of StoreClient. [all ranks]
std::unique_ptr<StoreClient> join_rendezvous(const RankEnvironment& environment, std::chrono::milliseconds timeout,
                                             const std::function<void(const std::string& cause)>& on_wait);

/// Set when the connection of that rank has closed: its process has ended, or its host is gone.
std::string ended_key(int rank);

/// "HOST:PORT" from the environment, for messages.
std::string rendezvous_text(const RankEnvironment& environment);

}  // namespace wmtp
