#include "core/plan/layout.hpp"

#include "core/experiment/model_shape.hpp"
#include "core/plugins/description_json.hpp"

namespace wmtp {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelConfig, dim, layers, heads, kv_heads, ffn_dim, vocab_size, future_tokens)

nlohmann::json to_json(const LayoutQuestion& question) {
  nlohmann::json json{{"model", question.model}, {"heads", question.heads}, {"value_heads", question.value_heads}};
  for_each_shape_option(question.model,
                        [&](const ShapeOption& option, const auto& value) { json["model"][option.name] = value; });
  if (question.adapter) json["adapter"] = to_json(*question.adapter);
  return json;
}

LayoutQuestion layout_question_from_json(const nlohmann::json& json) {
  LayoutQuestion question;
  json.at("model").get_to(question.model);
  for_each_shape_option(
      question.model, [&](const ShapeOption& option, auto& value) { json.at("model").at(option.name).get_to(value); });
  json.at("heads").get_to(question.heads);
  json.at("value_heads").get_to(question.value_heads);
  if (json.contains("adapter")) question.adapter = setting_from_json(json["adapter"]);
  return question;
}

}  // namespace wmtp
