// BackgroundStore: texts between the same threads of all ranks beside the training, through the rendezvous store under keys
// of their own, so that they never mix with the training's exchanges and use none of its connections.
//
// They wait as long as the others live. A wait ends with Error(peer) when the rank waited for has posted a fault, when
// the store is gone, and when this rank's own training has found a peer lost. No fault is posted from here: that is the
// training's to do, which learns of every loss in its own collectives or where it asks how this thread has ended.
#pragma once

#include <string>
#include <vector>

#include "engine/comm/peers.hpp"

namespace wmtp {

class BackgroundStore {
 public:
  /// `name` is the same on every rank, and no other BackgroundStore of the job has it.
  BackgroundStore(Peers& peers, std::string name) : peers_(peers), name_(std::move(name)) {}

  // [that thread of all ranks, in the same order]
  /// Rank 0's text, on every rank.
  std::string broadcast(const std::string& text_of_rank0);
  /// Every rank's text, by rank, on rank 0; nothing on the others. Rank 0 takes them out of the store.
  std::vector<std::string> gather(const std::string& mine);

 private:
  std::string key(const char* kind) { return name_ + "/" + kind + "/" + std::to_string(exchanges_++); }
  void give(const std::string& key, const std::string& text);
  std::string take(const std::string& key, int from);
  Peers& peers_;
  std::string name_;
  int64_t exchanges_ = 0;
};

}  // namespace wmtp
