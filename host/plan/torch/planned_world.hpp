// PlannedWorld: the ranks of a job that is planned. This process is one of them and there are no others: collectives
// send nothing, but are listed, and tell the clock how many bytes they would receive.
#pragma once

#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/torch/channels.hpp"
#include "plan/step_request.hpp"

namespace wmtp {

/// The work of a planned step and its seconds: operations advance the clock, collectives follow one another on each
/// link, and the clock jumps to a collective's end where the engine waits for it.
class StepClock {
 public:
  explicit StepClock(const std::optional<Rates>& rates) : rates_(rates) {}
  const Work& work() const { return work_; }
  void restart() { *this = StepClock(rates_); }

  void compute(double operations) {
    work_.operations += operations;
    if (rates_) work_.seconds += operations / rates_->operations;
  }
  /// Returns when the collective ends, in seconds since the step began.
  double start(const Traffic& traffic) {
    work_.traffic += traffic;
    if (!rates_) return 0;
    const double of_byte = rates_->exchange_seconds + (traffic.network > 0 ? rates_->socket_seconds : 0);
    work_.seconds += (traffic.bus + traffic.network) * of_byte;
    const auto end = [this](double& free_at, double bytes, double rate) {
      return bytes > 0 && rate > 0 ? free_at = std::max(free_at, work_.seconds) + bytes / rate : 0;
    };
    return std::max(end(bus_free_at_, traffic.bus, rates_->bus),
                    end(network_free_at_, traffic.network, rates_->network));
  }
  void finish(double ends_at) { work_.seconds = std::max(work_.seconds, ends_at); }
  /// Of the seconds so far, these passed in an exchange with a neighbouring section.
  void at_border(double seconds) { work_.at_borders += seconds; }

 private:
  std::optional<Rates> rates_;
  Work work_;
  double bus_free_at_ = 0, network_free_at_ = 0;
};

struct WorldShape {
  int64_t ranks = 1, hosts = 1;  ///< each host runs as many consecutive ranks
  bool on_cuda = false;
  int64_t sections = 1;  ///< of the model, each on as many consecutive ranks
};

/// Each rank of an axis sends one of equal parts of `bytes` to each other rank.
Traffic all_to_all_traffic(const WorldShape& world, const RankLine& axis, int64_t bytes);
/// Each rank sends `bytes` to all others. On GPUs, the parts of other hosts enter a host once, divided among its ranks,
/// and then travel over its bus, like in the rings of NCCL. In the one ring of Gloo, the parts of all other ranks enter
/// a host, those of its own ranks included; these are means over its ranks.
Traffic all_gather_traffic(const WorldShape& world, const RankLine& axis, int64_t bytes);

/// The `number`th communicator between `size` ranks from `first`, each `stride` after the one before.
struct Communicator {
  int first, stride, size, number;
  auto operator<=>(const Communicator&) const = default;
};
/// What a rank calls on each of its communicators, in order: purpose, operation, elements and types.
using IssuedCollectives = std::map<Communicator, std::vector<std::string>>;
/// The first collective in which a rank differs from another one of its communicator, so that they would wait for each
/// other forever or exchange unrelated bytes; "" if there is none. `ranks`: by rank, all or some of a job's.
std::string first_disagreement(const std::map<int, IssuedCollectives>& ranks);

class PlannedWorld {
 public:
  /// `clock` must outlive this object.
  PlannedWorld(const WorldShape& shape, int rank, StepClock& clock);
  Channels& channels() { return channels_; }
  /// All since the ranks were connected.
  const IssuedCollectives& issued() const { return issued_; }

 private:
  MakeBackend planned(const WorldShape& shape, StepClock& clock);
  Peers peers_;
  IssuedCollectives issued_;
  Channels channels_;
};

}  // namespace wmtp
