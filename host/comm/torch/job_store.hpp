// JobStore: the rendezvous store of a job as a c10d::Store, and on rank 0 its server.
//
// Under torchrun rank 0 writes its address to the agent's store, overwriting the previous one: the store survives
// restarts of the ranks by the agent, and agents on different hosts count restarts independently. A rank that reads the
// address from before the restart cannot connect there, and reads it again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/rank_environment.hpp"
#include "comm/store_server.hpp"

namespace wmtp {

struct JobStore {
  std::unique_ptr<StoreServer> server;  ///< on rank 0
  c10::intrusive_ptr<c10d::Store> store;
  std::string own_address;  ///< this rank's, on the connection to rank 0
};

/// `timeout` limits the store's waits and requests. `on_wait` is called once, after some seconds, with the cause of the
/// delay. Error(usage) if the port is in use, Error(peer) if the store cannot be reached. [all ranks]
JobStore open_job_store(const RankEnvironment& environment, std::chrono::milliseconds timeout,
                        const std::function<void(const std::string& cause)>& on_wait);

}  // namespace wmtp
