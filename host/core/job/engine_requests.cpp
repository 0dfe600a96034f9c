#include "core/job/engine_requests.hpp"

#include <nlohmann/json.hpp>

#include "core/plugins/description_json.hpp"

namespace wmtp {

using nlohmann::json;

namespace {

template <class T>
json optional_json(const std::optional<T>& value) {
  return value ? json(*value) : json();
}
template <class T>
std::optional<T> optional_from(const json& value) {
  return value.is_null() ? std::nullopt : std::optional<T>(value.get<T>());
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlainDecoding, forwards, seconds)

void to_json(json& out, const GenerateRequest& r) {
  out = {{"model", r.model},
         {"text", optional_json(r.text)},
         {"ids", r.ids},
         {"max_tokens", r.max_tokens},
         {"temperature", r.temperature},
         {"top_p", r.top_p},
         {"seed", r.seed},
         {"plain", r.plain},
         {"compares", r.compares},
         {"streams", r.streams}};
}
void from_json(const json& in, GenerateRequest& r) {
  r = {in.at("model").get<std::string>(),
       optional_from<std::string>(in.at("text")),
       in.at("ids"),
       in.at("max_tokens"),
       in.at("temperature"),
       in.at("top_p"),
       in.at("seed"),
       in.at("plain"),
       in.at("compares"),
       in.at("streams")};
}

void to_json(json& out, const Generated& g) {
  out = {{"prompt", g.prompt},     {"ids", g.ids},     {"text", optional_json(g.text)},
         {"decoding", g.decoding}, {"heads", g.heads}, {"forwards", g.forwards},
         {"seconds", g.seconds},   {"end", g.end},     {"plain", optional_json(g.plain)}};
}
void from_json(const json& in, Generated& g) {
  g = {in.at("prompt"),   in.at("ids"),   optional_from<std::string>(in.at("text")),
       in.at("decoding"), in.at("heads"), in.at("forwards"),
       in.at("seconds"),  in.at("end"),   optional_from<PlainDecoding>(in.at("plain"))};
}

void to_json(json& out, const AnswerRequest& r) {
  out = {{"model", r.model},
         {"prompts", r.prompts},
         {"samples", r.samples},
         {"max_tokens", r.max_tokens},
         {"temperature", r.temperature},
         {"top_p", r.top_p},
         {"seed", r.seed},
         {"stops", r.stops}};
}
void from_json(const json& in, AnswerRequest& r) {
  r = {in.at("model").get<std::string>(),
       in.at("prompts"),
       in.at("samples"),
       in.at("max_tokens"),
       in.at("temperature"),
       in.at("top_p"),
       in.at("seed"),
       in.at("stops")};
}

void to_json(json& out, const PerplexityRequest& r) {
  out = {{"model", r.model}, {"texts", r.texts}, {"stride", r.stride}};
}
void from_json(const json& in, PerplexityRequest& r) {
  r = {in.at("model").get<std::string>(), in.at("texts"), in.at("stride")};
}

void to_json(json& out, const HeadLoss& l) { out = {{"tokens", l.tokens}, {"loss", l.loss}, {"bytes", l.bytes}}; }
void from_json(const json& in, HeadLoss& l) { l = {in.at("tokens"), in.at("loss"), in.at("bytes")}; }

void to_json(json& out, const MergeRequest& r) {
  out = {{"adapter", r.adapter}, {"base", r.base}, {"target", r.target}, {"plugin", to_json(r.plugin)}};
}
void from_json(const json& in, MergeRequest& r) {
  r = {in.at("adapter").get<std::string>(), in.at("base").get<std::string>(), in.at("target").get<std::string>(),
       setting_from_json(in.at("plugin"))};
}

json to_json(const Answers& answers) {
  json out = json::array();
  for (const auto& sample : answers) {
    json& row = out.emplace_back(json::array());
    for (const auto& answer : sample) row.push_back(optional_json(answer));
  }
  return out;
}
Answers answers_from(const json& in) {
  Answers answers;
  for (const json& sample : in) {
    auto& row = answers.emplace_back();
    for (const json& answer : sample) row.push_back(optional_from<std::string>(answer));
  }
  return answers;
}

}  // namespace wmtp
