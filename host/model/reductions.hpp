// Reductions of gradients in flight: when a training step waits for each of their collectives.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

namespace wmtp {

/// A reduction has up to three collectives: parts in a shard group, parts in a replicate group, sums of a replicate
/// group. `Unit`: ShardUnit (shard/sharded_model.hpp), which outlives this.
template <class Unit>
class Reductions {
 public:
  /// Then waits for the older units, so that each collective holds the buffers of two units at most.
  void start(Unit& unit, bool last) {
    unit.start_reduce(last);
    in_flight_[0].push_back(&unit);
    finish_all_but(2);
  }
  void finish() { finish_all_but(0); }

 private:
  void finish_all_but(size_t newest) {
    constexpr void (Unit::*finish[])() = {&Unit::finish_reduce, &Unit::finish_replicate_reduce,
                                          &Unit::finish_replicate_gather};
    for (size_t collective = 0; collective < std::size(finish); ++collective)
      for (auto& units = in_flight_[collective]; units.size() > newest; units.erase(units.begin())) {
        (units.front()->*finish[collective])();
        if (collective + 1 < in_flight_.size()) in_flight_[collective + 1].push_back(units.front());
      }
  }

  std::array<std::vector<Unit*>, 3> in_flight_;  ///< by collective, oldest first
};

}  // namespace wmtp
