#include "core/plan/layout.hpp"

#include "core/plugins/description_json.hpp"

namespace wmtp {
namespace {

using nlohmann::json;

json group_json(const PlannedGroup& group) { return {group.parameters, group.elements}; }
PlannedGroup group_of(const json& j) { return {j.at(0).get<int64_t>(), j.at(1).get<int64_t>()}; }

}  // namespace

json to_json(const LayoutQuestion& question) {
  const ModelConfig& m = question.model;
  json j{{"dim", m.dim},
         {"layers", m.layers},
         {"model_heads", m.heads},
         {"kv_heads", m.kv_heads},
         {"ffn_dim", m.ffn_dim},
         {"vocab_size", m.vocab_size},
         {"future_tokens", m.future_tokens},
         {"qkv_bias", m.qkv_bias},
         {"tie_word_embeddings", m.tie_word_embeddings},
         {"heads", question.heads},
         {"value_heads", question.value_heads}};
  if (question.adapter) j["adapter"] = to_json(*question.adapter);
  return j;
}

LayoutQuestion layout_question_from_json(const json& j) {
  LayoutQuestion question;
  ModelConfig& m = question.model;
  j.at("dim").get_to(m.dim);
  j.at("layers").get_to(m.layers);
  j.at("model_heads").get_to(m.heads);
  j.at("kv_heads").get_to(m.kv_heads);
  j.at("ffn_dim").get_to(m.ffn_dim);
  j.at("vocab_size").get_to(m.vocab_size);
  j.at("future_tokens").get_to(m.future_tokens);
  j.at("qkv_bias").get_to(m.qkv_bias);
  j.at("tie_word_embeddings").get_to(m.tie_word_embeddings);
  j.at("heads").get_to(question.heads);
  j.at("value_heads").get_to(question.value_heads);
  if (j.contains("adapter")) question.adapter = setting_from_json(j["adapter"]);
  return question;
}

json to_json(const PlannedLayout& layout) {
  json units = json::array();
  for (const PlannedUnit& unit : layout) {
    json slots = json::array();
    for (const PlannedSlot& slot : unit.slots) slots.push_back({slot.in, slot.out, slot.trains, slot.beside});
    units.push_back({unit.name, unit.always_fp32, group_json(unit.trained), group_json(unit.frozen), std::move(slots)});
  }
  return units;
}

PlannedLayout planned_layout_from_json(const json& j) {
  PlannedLayout layout;
  for (const json& one : j) {
    PlannedUnit unit;
    one.at(0).get_to(unit.name);
    one.at(1).get_to(unit.always_fp32);
    unit.trained = group_of(one.at(2));
    unit.frozen = group_of(one.at(3));
    for (const json& s : one.at(4)) {
      PlannedSlot slot{s.at(0).get<int64_t>(), s.at(1).get<int64_t>(), s.at(2).get<bool>(), {}};
      s.at(3).get_to(slot.beside);
      unit.slots.push_back(std::move(slot));
    }
    layout.push_back(std::move(unit));
  }
  return layout;
}

}  // namespace wmtp
