// Work that rank 0 does alone, while the others wait to hear how it ended.
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "engine/comm/peers.hpp"

namespace wmtp {

class SharedFailure {
 public:
  /// Does the work, unless earlier work has failed. [rank 0]
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
  /// Throws rank 0's failure on every rank, with its status. `what` names the exchange. [all ranks, collective]
  void share(const std::string& what, Peers& peers) const;

 private:
  std::optional<Error> failure_;
};

}  // namespace wmtp
