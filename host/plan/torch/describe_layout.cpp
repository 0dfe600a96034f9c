#include "plan/torch/describe_layout.hpp"

#include "model/alignment.hpp"
#include "plugins/torch/loader.hpp"

namespace wmtp {
namespace {

Heads heads_of(const std::string& text) {
  return text == "all" ? Heads::all : text == "first" ? Heads::first : Heads::none;
}

void add(const ParameterSpec& parameter, PlannedUnit& unit) {
  PlannedGroup& group = parameter.trains ? unit.trained : unit.frozen;
  group.parameters += parameter.count();
  group.elements += round_up(parameter.count(), alignment);
  if (parameter.orthogonalizes && parameter.trains) group.matrices.emplace_back(parameter.shape[0], parameter.shape[1]);
}

/// The linear layers of a block; empty for a unit that is not a block.
std::vector<PlannedSlot> slots_of(const UnitSpec& unit, const LayoutRequest& request) {
  std::vector<PlannedSlot> slots;
  if (!is_of_block(unit.name)) return slots;
  for (const BlockLayer& layer : block_layers(*request.model, unit.name)) {
    if (!layer.is_linear()) continue;
    const Linear linear{unit.name + "." + std::string(layer.name), layer.in, layer.out};
    const bool trains = wmtp::trains(request, linear.name + ".weight");
    PlannedSlot slot{int(layer.layer), layer.in, layer.out, trains, layer.has_bias, {}};
    for (const Param& param : declared(request.adapter, linear))
      slot.adapter_params.emplace_back(param.shape.at(0), param.shape.at(1));
    slots.push_back(std::move(slot));
  }
  return slots;
}

PlannedLayout layout_of(const LayoutQuestion& question) {
  std::unique_ptr<Adapter> adapter;
  if (question.adapter) adapter = create_adapter(question.adapter->description, question.adapter->options);
  LayoutRequest request;
  request.model = &question.model;
  request.heads = heads_of(question.heads);
  request.adapter = adapter.get();
  request.optimizer.name = question.optimizer;
  for (const std::string& match : question.groups) request.optimizer.groups.push_back({match, 1, {}});
  for (const auto& [name, kind] : question.value_heads) request.value_heads.push_back({name, kind});
  request.trained_parts = {question.train_last, question.train};
  return planned_layout(request);
}

}  // namespace

PlannedLayout planned_layout(const LayoutRequest& request) {
  PlannedLayout layout;
  for (const UnitSpec& spec : model_units(request)) {
    PlannedUnit unit{spec.name, spec.always_fp32, {}, {}, slots_of(spec, request)};
    for (const ParameterSpec& parameter : spec.parameters) add(parameter, unit);
    layout.push_back(std::move(unit));
  }
  return layout;
}

std::string describe_layouts(const std::string& questions) {
  Json answers = Json::array();
  for (const Json& question : Json::parse(questions)) answers.push_back(layout_of(question));
  return answers.dump();
}

}  // namespace wmtp
