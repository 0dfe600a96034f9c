// PlannedWorld: the ranks of a job that is planned. This process is one of them and there are no others: collectives
// send nothing, but are listed, and a timeline notes how many bytes they would receive.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/torch/channels.hpp"
#include "plan/step_request.hpp"

namespace wmtp {

/// What a planned step computes and sends, in order. Its seconds follow for any rates, so that a layout is run once for
/// all cards: operations advance a clock, collectives follow one another on each link, and the clock jumps to a
/// collective's end where the engine waits for it.
class StepTimeline {
 public:
  void compute(double operations);
  /// Returns the number of the collective.
  size_t start(const Traffic& traffic);
  /// `at_border`: of a collective between neighbouring sections. One of an earlier step takes no time.
  void wait_for(size_t collective, bool at_border);
  /// At the beginning of a step.
  void restart();

  /// Operations and traffic, without seconds.
  const RankWork& counted() const { return counted_; }
  /// Sets the seconds of `work`.
  void time(RankWork& work, const Rates& rates) const;

 private:
  enum class Kind : uint8_t { compute, start, wait, wait_at_border };
  struct Event {
    Kind kind;
    double operations = 0;
    size_t collective = 0;
  };
  std::vector<Event> events_;
  std::vector<Traffic> collectives_;
  size_t first_ = 0;  ///< number of the first of these
  RankWork counted_;
};

struct WorldShape {
  int64_t ranks = 1, hosts = 1;  ///< each host runs as many consecutive ranks
  bool on_cuda = false;
  int64_t sections = 1;  ///< of the model, each on as many consecutive ranks
};

/// Each rank of an axis sends one of equal parts of `bytes` to each other rank.
Traffic all_to_all_traffic(const WorldShape& world, const RankAxis& axis, int64_t bytes);
/// Each rank sends `bytes` to all others. On GPUs, the parts of other hosts enter a host once, divided among its ranks,
/// and then travel over its bus, like in the rings of NCCL. In the one ring of Gloo, the parts of all other ranks enter
/// a host, those of its own ranks included; these are means over its ranks.
Traffic all_gather_traffic(const WorldShape& world, const RankAxis& axis, int64_t bytes);

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
  /// `timeline` must outlive this object.
  PlannedWorld(const WorldShape& shape, int rank, StepTimeline& timeline);
  Channels& channels() { return channels_; }
  /// All since the ranks were connected.
  const IssuedCollectives& issued() const { return issued_; }

 private:
  MakeBackend planned(const WorldShape& shape, StepTimeline& timeline);
  Peers peers_;
  IssuedCollectives issued_;
  Channels channels_;
};

}  // namespace wmtp
