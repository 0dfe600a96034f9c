// BackgroundStore: exchanges texts between background threads of all ranks through the rendezvous store, under separate
// keys, so that they never interfere with the training's exchanges and use none of its connections.
//
// A wait ends with Error(peer) if the awaited rank has posted a fault, ended or is silent (Peers::wait_for_key), if the
// store is gone, or if this rank's training thread has found a rank lost. This class posts no faults: the training
// thread does, which notices every loss in its collectives or when it reads this thread's outcome.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/torch/peers.hpp"

namespace wmtp {

class BackgroundStore {
 public:
  /// `name`: the same on every rank, unique in the job.
  BackgroundStore(Peers& peers, std::string name) : peers_(peers), name_(std::move(name)) {}

  // [the same thread of all ranks, in the same order]
  /// Returns rank 0's text on every rank.
  std::string broadcast(const std::string& rank0_text);
  /// Returns every rank's text, by rank, on rank 0; empty on the others. Rank 0 removes them from the store.
  std::vector<std::string> gather(const std::string& mine);
  /// Returns on every rank the failure of the lowest rank that has one, as Peers::rethrow_on_all_ranks throws it. That
  /// of rank 0 may be the loss of another rank.
  std::optional<Error> failure_on_any_rank(const std::optional<Error>& mine);
  void throw_failure_on_any_rank(const std::optional<Error>& mine) {
    if (const auto failure = failure_on_any_rank(mine)) throw *failure;
  }

 private:
  std::string key(const char* kind) { return name_ + "/" + kind + "/" + std::to_string(exchanges_++); }
  void set(const std::string& key, const std::string& text);
  std::string get(const std::string& key, int from);
  Peers& peers_;
  std::string name_;
  int64_t exchanges_ = 0;
};

}  // namespace wmtp
