// The whole parameters of a model, on every rank, from all shards and pieces: what files contain. Sets of groups and
// the order of their parameters are the same for every layout, so that files are, too.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "shard/sharded_model.hpp"

namespace wmtp {

/// Groups of a unit that all train or are all frozen: one, or with tensor parallelism two, of whole parameters and of
/// pieces.
using GroupSet = std::vector<ParameterGroup*>;

/// The unit's trained groups, then its frozen ones; no set is empty.
std::vector<GroupSet> group_sets(const ShardUnit& unit);
/// The parameters of a set, in the order of files.
std::vector<const ParameterSpec*> parameters_in_order(const GroupSet& set);

/// The gathered parameters of a set. [the constructor: all ranks, collective]
class GatheredSet {
 public:
  explicit GatheredSet(const GroupSet& set);
  /// In fp32 in the host's memory, in the shape of the whole. Error(bug) if the set has no such parameter.
  at::Tensor parameter(const std::string& name) const;

 private:
  struct Gathered {
    const ParameterGroup* group;
    at::Tensor pieces;
  };
  std::vector<Gathered> all_;
};

}  // namespace wmtp
