// Peers: the rendezvous store of a job, and propagation of errors between ranks.
//
// A rank that fails posts its fault (status and text) under its key and ends. A rank whose collective fails polls the
// store, for a bounded time, for the faults of others: a fault other than a broken collective is the root cause and is
// rethrown with its status; ranks without a posted fault are reported as lost, and if all answer, those whose device
// has stopped. So all ranks end with the same reason, even without a launcher. Rank 0 serves the store and stays a
// moment longer so that the others can read it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "comm/placement.hpp"
#include "comm/rank_environment.hpp"
#include "comm/store_server.hpp"
#include "comm/torch/c10d_names.hpp"
#include "comm/torch/flight_record.hpp"
#include "comm/torch/heartbeat.hpp"

namespace wmtp {

/// Why the work failed; nullopt if it did not. An exception that is no Error becomes Error(storage).
template <class Work>
std::optional<Error> failure_of(Work&& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ExitStatus::storage, error.what());
  }
}

class Peers {
 public:
  /// Waits up to `timeout` for all ranks; logs the missing ones after some seconds. Error(usage) if the port is in use,
  /// Error(peer) with the missing ranks or the unreachable address. [all ranks]
  Peers(const RankEnvironment& environment, std::chrono::milliseconds timeout);
  /// A rank of a job that is only planned: there are no others.
  Peers(int rank, int size);
  ~Peers();

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// This rank's host and the address of its connections.
  const Placement& placement() const { return placement_; }
  /// Of all ranks, by rank.
  const std::vector<RankLocation>& locations() const { return locations_; }
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

  /// Posts why this rank is about to end. False if another rank has posted the same text and will print it.
  bool post_fault(const Error& error) noexcept;
  /// `hang_up` is called after a fault was posted or explained, to end other ranks' waits for this one.
  void on_broken(std::function<void()> hang_up) { hang_up_ = std::move(hang_up); }
  FlightRecord& record() { return record_; }

  /// The cause of a failed collective: the root cause posted by another rank, the ranks that do not answer, or those
  /// whose device has stopped. Writes the flight record if no rank has posted the cause. The first thread that calls it
  /// reports the result and ends the process; other threads wait for that. [any thread]
  Error explain(const std::string& what_broke, const std::string& detail) noexcept;
  /// Whether explain() has found a lost rank, as opposed to a posted fault. [any thread]
  bool lost() const { return lost_; }
  /// Whether explain() has found that rank 0, which reports for all ranks, is the lost one. [any thread]
  bool lost_rank0() const { return lost_rank0_; }
  /// Whether that rank has posted a fault or its process is gone. Throws if the store is gone. [any thread]
  bool has_left(int rank) const;
  /// Waits until rank `from` has set the key. False if that rank has left without setting it or has been silent
  /// (heartbeat.hpp) for the timeout; with `until_loss` also if lost(). Throws if the store is gone. [any thread]
  bool wait_for_key(const std::string& key, int from, bool until_loss = false) const;

  // Exchange texts through the store. They wait as long as the other ranks run, so rank 0 may take minutes before a
  // broadcast, and for a silent one no longer than the timeout. `what` names the exchange in errors. [all ranks, in the
  // same order]
  /// Returns rank 0's text on every rank.
  std::string broadcast(const std::string& what, const std::string& rank0_text);
  /// Returns every rank's text, by rank, on rank 0; empty on the others.
  std::vector<std::string> gather(const std::string& what, const std::string& mine);
  /// Makes a rank's failure everyone's: throws on every rank the failure of the lowest rank that has one. The message
  /// names the rank, unless it is rank 0, which reports for all.
  void rethrow_on_all_ranks(const std::string& what, const std::optional<Error>& mine);
  /// Settings with which a rank was started, by name.
  using Settings = std::vector<std::pair<std::string, std::string>>;
  /// Throws on every rank if one was started with different settings than rank 0 (Error(usage)).
  void check_settings(const Settings& mine);
  /// Something that every rank needs.
  struct Input {
    std::string name, content;
    std::optional<Error> lack;  ///< why this rank has no content
  };
  /// Throws on every rank, in one message with all hosts and inputs concerned, if a rank lacks an input or its content
  /// differs from rank 0's input of that name.
  void check_inputs(const std::vector<Input>& mine);
  /// Call last: returns when every rank has called it, and on rank 0 when the others have closed their connections.
  /// Error(peer) names those that have not within the timeout.
  void wait_for_all();

 private:
  using Clock = std::chrono::steady_clock;
  std::string open_store(const RankEnvironment& environment, std::chrono::milliseconds timeout);
  std::string gather_locations(Clock::time_point end) const;
  std::string exchange_locations(const RankLocation& mine, Clock::time_point end);
  std::vector<RankLocation> exchange_all_locations(const RankLocation& mine, Clock::time_point end);
  bool wait_for_key(const std::string& key, Clock::time_point end) const;
  std::vector<int> missing_until(Clock::time_point end) const;
  Error find_cause(const std::string& what_broke, const std::string& detail) noexcept;
  std::string stopped_devices() const;
  void set(const std::string& key, const std::string& text, const std::string& what);
  std::string get(const std::string& key, int from, const std::string& what);

  int rank_, size_;
  std::chrono::milliseconds timeout_;
  std::vector<RankLocation> locations_;
  Placement placement_;
  FlightRecord record_;
  std::function<void()> hang_up_;
  std::atomic<bool> lost_ = false, lost_rank0_ = false;
  std::atomic<std::thread::id> explainer_;
  bool adopted_ = false;                 ///< explain() returned another rank's fault
  int64_t exchanges_ = 0;                ///< makes the keys of exchanges unique
  std::unique_ptr<StoreServer> server_;  ///< on rank 0
  c10::intrusive_ptr<c10d::Store> store_;
  std::unique_ptr<Heartbeat> heartbeat_;
};

}  // namespace wmtp
