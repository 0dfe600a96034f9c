// JobStore: the rendezvous store of a job as c10d's communicators use one, and for rank 0 its server.
//
// Under torchrun rank 0 tells in the agent's store where it listens, each time in the place of what it said before:
// when the agent restarts the ranks, its store is the same, and agents of several hosts count restarts each for itself.
// A rank that finds what rank 0 said before the restart reaches nobody there, and asks again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "core/rendezvous/rank_environment.hpp"
#include "core/rendezvous/store_server.hpp"

namespace wmtp {

struct JobStore {
  std::unique_ptr<StoreServer> server;  ///< on rank 0
  c10::intrusive_ptr<c10d::Store> store;
  std::string own_address;  ///< by which this rank reached rank 0
};

/// [all ranks] The store's waits and requests take `timeout` at most. `on_wait` is called once, after some seconds,
/// with the cause of the delay. Error(usage) when the port is in use, Error(peer) that says what was reached.
JobStore open_job_store(const RankEnvironment& environment, std::chrono::milliseconds timeout,
                        const std::function<void(const std::string& cause)>& on_wait);

}  // namespace wmtp
