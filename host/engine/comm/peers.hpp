// Peers: the rendezvous store of a job, and how ranks tell each other what went wrong.
//
// A rank that fails posts its fault (status and text) under its own key and ends. A rank whose collective breaks asks
// the store, for a bounded time, what the others have posted: a fault of another kind is the root cause and is adopted
// with its status; ranks that have posted nothing are named as lost. So every rank ends, with one reason, and no rank
// needs the launcher for it. Rank 0 holds the store and stays a moment longer so that the others can read it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "core/rendezvous/placement.hpp"
#include "core/rendezvous/rank_environment.hpp"
#include "core/rendezvous/store_server.hpp"

namespace wmtp {

class Peers {
 public:
  /// [all ranks] Waits up to `timeout` for all ranks, and says after some seconds for whom. Error(usage) when the port
  /// is in use, Error(peer) that names the ranks that did not come, or the address that cannot be reached.
  Peers(const RankEnvironment& environment, std::chrono::milliseconds timeout);

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Where this rank runs, and the address from which it exchanges.
  const Placement& placement() const { return placement_; }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

  /// Says why this rank is about to end. False when another rank has posted the same words: one of them tells the user.
  bool post_fault(const Error& error) noexcept;
  /// What a fault, posted or explained, does next: others that wait for this rank then hear of it too.
  void on_broken(std::function<void()> hang_up) { hang_up_ = std::move(hang_up); }
  /// The reason of a broken collective: the root cause another rank posted, or who does not answer.
  Error explain(const std::string& what_broke, const std::string& detail) noexcept;
  /// Whether explain() has found that a rank is lost, rather than a fault that it posted. [any thread]
  bool lost() const { return lost_; }
  /// Whether that rank has posted a fault, or its process is gone. [any thread] Throws when the store is gone.
  bool has_left(int rank) const;

  /// What a rank was started with, by name.
  using Given = std::vector<std::pair<std::string, std::string>>;
  /// [all ranks] Before anything else: throws on every rank when one of them was given something else than rank 0
  /// (Error(usage)), or cannot start, for the reason that it brings here. The message names the rank.
  void start_alike(const Given& given, const std::optional<Error>& refusal);

  // [all ranks, in the same order] Texts through the store; they wait as long as the others live, whatever the timeout
  // of collectives, so rank 0 may take minutes over what it publishes. `what` names the exchange in errors.
  /// Rank 0's text, on every rank.
  std::string broadcast(const std::string& what, const std::string& text_of_rank0);
  /// Every rank's text, by rank, on rank 0; nothing on the others.
  std::vector<std::string> gather(const std::string& what, const std::string& mine);
  /// Every rank's text; all must be equal to rank 0's, else Error(status) naming the rank and both values.
  void check_equal(const std::string& what, const std::string& mine, ExitStatus status);

 private:
  using Clock = std::chrono::steady_clock;
  std::string open_store(const RankEnvironment& environment, std::chrono::milliseconds timeout);
  std::string collected_places(const Place& mine, Clock::time_point end) const;
  std::string exchanged_places(const Place& mine, Clock::time_point end);
  std::vector<Place> meet(const Place& mine, Clock::time_point end);
  bool appears(const std::string& key, Clock::time_point end) const;
  std::vector<int> missing_until(Clock::time_point end) const;
  void give(const std::string& key, const std::string& text, const std::string& what);
  std::string wait_for(const std::string& key, int from, const std::string& what);

  int rank_, size_;
  Placement placement_;
  std::function<void()> hang_up_;
  std::atomic<bool> lost_ = false;
  bool adopted_ = false;                 ///< the reason we end for is another rank's, found by explain
  int64_t exchanges_ = 0;                ///< makes every exchange's keys its own
  std::unique_ptr<StoreServer> server_;  ///< on rank 0
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace wmtp
