#include "shard/whole_parameters.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "memory/meta_device.hpp"
#include "model/model_tensors.hpp"

namespace wmtp {

std::vector<ParameterSet> parameter_sets(const ShardedModel& model) {
  std::vector<ParameterSet> sets;
  for (const UnitSpec& unit : model.whole())
    for (const bool trains : {true, false}) {
      ParameterSet set{unit.name, trains, {}};
      for (const ParameterSpec& spec : unit.parameters)
        if (spec.trains == trains) set.parameters.push_back(&spec);
      std::ranges::stable_sort(set.parameters,
                               [](const ParameterSpec* a, const ParameterSpec* b) { return precedes(*a, *b); });
      if (!set.parameters.empty()) sets.push_back(std::move(set));
    }
  return sets;
}

ParameterSet adapter_set(const ShardedModel& model) {
  for (ParameterSet& set : parameter_sets(model))
    if (set.unit == adapter_unit_name) return std::move(set);
  return {};
}

GatheredSet::GatheredSet(const ShardedModel& model, const ParameterSet& set) {
  for (const auto& unit : model.units())
    if (unit->name() == set.unit)
      for (const auto& group : unit->groups())
        if (group->trains() == set.trains) all_.push_back({group.get(), group->gather_pieces(group->gather_master())});
}

std::pair<const GatheredSet::GatheredGroup*, const FlatParameter*> GatheredSet::find(const std::string& name) const {
  for (const GatheredGroup& gathered : all_)
    for (const FlatParameter& placed : gathered.group->parameters())
      if (placed.spec.name == name) return {&gathered, &placed};
  return {};
}

bool GatheredSet::has(const std::string& name) const { return find(name).second != nullptr; }

bool GatheredSet::is_on_device() const {
  return std::ranges::any_of(all_, [](const GatheredGroup& gathered) { return !on_cpu(gathered.pieces); });
}

at::Tensor GatheredSet::parameter(const std::string& name) const {
  const auto [gathered, placed] = find(name);
  if (!placed) throw Error(ExitStatus::bug, "the gathered set has no parameter '" + name + "'");
  const at::Tensor values = ParameterGroup::joined(*placed, gathered->pieces);
  return (on_cpu(values) ? values : copied_to_host(values)).to(at::kFloat);
}

at::Tensor passed_to_rank0(const ShardedModel& model, const ParameterSpec& spec, const at::Tensor& value) {
  const int64_t sections = model.section().count, heads = model.backward_extent().num_heads();
  const Section holder{section_with(model.config(), heads, sections, unit_of(spec.name)), sections};
  const auto owner = int(holder.num_after());
  if (owner == 0) return value;
  const RankGroup& firsts = model.channels().counterparts();
  const auto options = at::TensorOptions(at::kFloat).device(model.compute().device().is_meta() ? at::kMeta : at::kCPU);
  at::Tensor passed = value.defined() ? value.contiguous() : at::empty(spec.shape, options);
  firsts.gather_channel->broadcast(passed, owner, "passing " + spec.name + " to rank 0").wait();
  return firsts.rank == 0 ? passed : value;
}

}  // namespace wmtp
