#include "shard/whole_parameters.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "memory/meta_device.hpp"

namespace wmtp {

std::vector<GroupSet> group_sets(const ShardUnit& unit) {
  std::vector<GroupSet> sets;
  for (const auto& group : unit.groups()) {
    if (sets.empty() || sets.back().front()->trains() != group->trains()) sets.emplace_back();
    sets.back().push_back(group.get());
  }
  return sets;
}

std::vector<const ParameterSpec*> parameters_in_order(const GroupSet& set) {
  std::vector<const ParameterSpec*> all;
  for (const ParameterGroup* group : set)
    for (const FlatParameter& placed : group->parameters()) all.push_back(&placed.spec);
  std::ranges::stable_sort(all, [](const ParameterSpec* a, const ParameterSpec* b) { return precedes(*a, *b); });
  return all;
}

GatheredSet::GatheredSet(const GroupSet& set) {
  for (ParameterGroup* group : set) all_.push_back({group, group->gather_pieces(group->gather_master())});
}

at::Tensor GatheredSet::parameter(const std::string& name) const {
  for (const Gathered& gathered : all_)
    for (const FlatParameter& placed : gathered.group->parameters())
      if (placed.spec.name == name) {
        const at::Tensor values = ParameterGroup::joined(placed, gathered.pieces);
        return (on_cpu(values) ? values : copied_to_host(values)).to(at::kFloat);
      }
  throw Error(ExitStatus::bug, "the set of groups has no parameter '" + name + "'");
}

}  // namespace wmtp
