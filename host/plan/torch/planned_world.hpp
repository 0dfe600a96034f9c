// PlannedWorld: the ranks of a job that is planned. This process is one of them and there are no others: collectives
// send nothing, and tell the clock how many bytes they would receive.
#pragma once

#include "comm/torch/channels.hpp"
#include "plan/torch/step_clock.hpp"

namespace wmtp {

struct WorldShape {
  int64_t ranks = 1, hosts = 1;  ///< each host runs as many consecutive ranks
  bool on_cuda = false;
};

/// Each rank of an axis sends one of equal parts of `bytes` to each other rank.
Traffic traffic_of_all_to_all(const WorldShape& world, const Axis& axis, int64_t bytes);
/// Each rank sends `bytes` to all others. On GPUs, the parts of other hosts enter a host once, divided among its ranks,
/// and then travel over its bus, like in the rings of NCCL. In the one ring of Gloo, the parts of all other ranks enter
/// a host, those of its own ranks included; these are means over its ranks.
Traffic traffic_of_all_gather(const WorldShape& world, const Axis& axis, int64_t bytes);

class PlannedWorld {
 public:
  /// `clock` must outlive this object.
  PlannedWorld(const WorldShape& shape, int rank, StepClock& clock);
  Channels& channels() { return channels_; }

 private:
  Peers peers_;
  Channels channels_;
};

}  // namespace wmtp
