// Ranks inside the test's process: one without a network, or several as threads, which exchange as ranks of one host.
#pragma once

#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "comm/network.hpp"
#include "comm/torch/channels.hpp"
#include "comm/torch/shared_memory_backend.hpp"
#include "comm/torch/single_rank.hpp"
#include "support/poisoned_memory.hpp"

namespace wmtp::test {

/// Calls body(channels) on `size` ranks in parallel; their gathers and reduces use the backends that `device` makes.
/// Not Gloo by default: its threads poll, without sleeping, while a message waits for a rank that is late.
/// Rethrows a rank's first exception.
inline void on_ranks(int size, const std::function<void(Channels&)>& body,
                     const MakeBackend& device = shared_memory_or(gloo("127.0.0.1"))) {
  if (size == 1) {
    SingleRank rank;
    return body(rank.channels);
  }
  // LibTorch's record of collectives is global to the process and does not support several groups at once.
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);
  const Socket held = reserved_loopback_port(0);  // until rank 0 listens there
  const int port = held.port();
  std::vector<std::exception_ptr> faults((size_t(size)));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        RankEnvironment environment;
        environment.rank = rank;
        environment.world_size = size;
        environment.master_port = port;
        Peers peers(environment, std::chrono::seconds(20));
        Channels channels(peers, gloo("127.0.0.1"), device, std::chrono::seconds(20));
        body(channels);
        peers.broadcast("the end", "here");  // rank 0 serves the store: it leaves last
        peers.gather("the end", "here");
      } catch (...) {
        faults[size_t(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& fault : faults)
    if (fault) std::rethrow_exception(fault);
}

}  // namespace wmtp::test
