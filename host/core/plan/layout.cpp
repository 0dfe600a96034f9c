#include "core/plan/layout.hpp"

#include "core/plugins/description_json.hpp"

namespace wmtp {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelConfig, dim, layers, heads, kv_heads, ffn_dim, vocab_size, future_tokens,
                                   qkv_bias, tie_word_embeddings)

nlohmann::json to_json(const LayoutQuestion& question) {
  nlohmann::json json{{"model", question.model}, {"heads", question.heads}, {"value_heads", question.value_heads}};
  if (question.adapter) json["adapter"] = to_json(*question.adapter);
  return json;
}

LayoutQuestion layout_question_from_json(const nlohmann::json& json) {
  LayoutQuestion question;
  json.at("model").get_to(question.model);
  json.at("heads").get_to(question.heads);
  json.at("value_heads").get_to(question.value_heads);
  if (json.contains("adapter")) question.adapter = setting_from_json(json["adapter"]);
  return question;
}

}  // namespace wmtp
