// The whole parameters of a model, from all shards, pieces and sections: what files contain. Sets of parameters and
// their order are the same for every layout, so that files are, too.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "shard/sharded_model.hpp"

namespace wmtp {

/// Parameters of a unit that all train or are all frozen, in the order of files. Without tensor parallelism they are
/// one group.
struct ParameterSet {
  std::string unit;
  bool trains = false;
  std::vector<const ParameterSpec*> parameters;
};

/// Of the whole model: by unit, first what trains. They refer to the model's specs.
std::vector<ParameterSet> parameter_sets(const ShardedModel& model);
/// The trained parameters of the adapter's unit, in all sections; empty if there is none.
ParameterSet adapter_set(const ShardedModel& model);

/// The gathered parameters of a set that are in this rank's section. [the constructor: all ranks of the section,
/// collective]
class GatheredSet {
 public:
  GatheredSet(const ShardedModel& model, const ParameterSet& set);
  bool has(const std::string& name) const;
  /// Whether the masters are in a device's memory, so that parameter() copies them.
  bool is_on_device() const;
  /// In fp32 in the host's memory, in the shape of the whole. Error(bug) if it is not here.
  at::Tensor parameter(const std::string& name) const;

 private:
  struct GatheredGroup {
    const ParameterGroup* group;
    at::Tensor pieces;
  };
  /// Null if the parameter is not here.
  std::pair<const GatheredGroup*, const FlatParameter*> find(const std::string& name) const;

  std::vector<GatheredGroup> all_;
};

/// Sends `value`, a parameter in fp32 on the host, from the first rank of its section, where it is defined, to rank 0
/// of the job. Returns it there, and `value` elsewhere. [the first ranks of all sections, collective]
at::Tensor passed_to_rank0(const ShardedModel& model, const ParameterSpec& spec, const at::Tensor& value);

}  // namespace wmtp
