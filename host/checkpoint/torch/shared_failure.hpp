// Work done by rank 0 alone while the other ranks wait for its result.
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "comm/torch/peers.hpp"

namespace wmtp {

class SharedFailure {
 public:
  /// Runs `work` and records its failure; does nothing if earlier work has failed. [rank 0]
  template <class Work>
  void attempt(Work&& work) {
    if (failure_) return;
    try {
      work();
    } catch (const Error& error) {
      failure_ = error;
    } catch (const std::exception& error) {
      failure_.emplace(ExitStatus::storage, error.what());
    }
  }
  /// Rethrows rank 0's failure on every rank, with its status. `what` names the exchange. [all ranks, collective]
  void share(const std::string& what, Peers& peers) const {
    const std::string mine = failure_ ? std::to_string(int(failure_->status())) + " " + failure_->what() : "";
    const std::string shared = peers.broadcast(what, mine);
    if (!shared.empty()) throw Error(ExitStatus(std::stoi(shared)), shared.substr(shared.find(' ') + 1));
  }

 private:
  std::optional<Error> failure_;
};

}  // namespace wmtp
