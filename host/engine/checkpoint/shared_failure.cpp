#include "engine/checkpoint/shared_failure.hpp"

namespace wmtp {

void SharedFailure::share(const std::string& what, Peers& peers) const {
  const std::string mine = failure_ ? std::to_string(int(failure_->status())) + " " + failure_->what() : "";
  const std::string shared = peers.broadcast(what, mine);
  if (!shared.empty()) throw Error(ExitStatus(std::stoi(shared)), shared.substr(shared.find(' ') + 1));
}

}  // namespace wmtp
