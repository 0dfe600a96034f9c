// Rendezvous: where the store of a job listens, and how a rank comes to it. Knows no LibTorch.
//
// Rank 0 serves it: on the loopback when all ranks are on one host, else on the address by which the others know it. It
// listens at MASTER_PORT. Under torchrun, whose agent keeps a store of its own there, it listens at a free port, and
// tells it in the agent's store (job_store.hpp).
#pragma once

#include <memory>

#include "core/rendezvous/rank_environment.hpp"
#include "core/rendezvous/store_client.hpp"
#include "core/rendezvous/store_server.hpp"

namespace wmtp {

/// At `place`, whose host is a name of this one; port 0: any that is free. Error(usage) when it is in use. [rank 0]
std::unique_ptr<StoreServer> serve_rendezvous(const RankEnvironment& environment, const MeetingPlace& place);

/// What a rank connects to, to come to `place`.
MeetingPlace as_seen_from_here(const RankEnvironment& environment, MeetingPlace place);

/// MASTER_ADDR and MASTER_PORT.
MeetingPlace named_place(const RankEnvironment& environment);

/// The rendezvous at MASTER_PORT. Errors of StoreClient. [all ranks]
std::unique_ptr<StoreClient> join_rendezvous(const RankEnvironment& environment, std::chrono::milliseconds timeout,
                                             const std::function<void(const std::string& cause)>& on_wait);

/// Set once the connection of that rank has ended: its process is gone, or its host.
std::string ended_key(int rank);

/// "HOST:PORT", as the environment names the rendezvous.
std::string rendezvous_text(const RankEnvironment& environment);

}  // namespace wmtp
