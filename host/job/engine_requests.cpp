#include "job/engine_requests.hpp"

#include <cstring>

namespace wmtp {
namespace {

/// The bytes of the values, because there may be millions.
template <class T>
Json packed(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return Json::binary(std::move(bytes));
}

template <class T>
void unpack(const Json& in, std::vector<T>& values) {
  const std::vector<uint8_t>& bytes = in.get_binary();
  values.resize(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
}

}  // namespace

void to_json(Json& out, const WeighedTokens& tokens) {
  out = {{"pipeline", tokens.pipeline},
         {"step", tokens.step},
         {"steps", tokens.steps},
         {"heads", tokens.heads},
         {"sequence", packed(tokens.sequence)},
         {"position", packed(tokens.position)},
         {"token", packed(tokens.token)},
         {"text", tokens.text},
         {"shown", tokens.shown},
         {"loss", packed(tokens.loss)},
         {"weight", packed(tokens.weight)}};
}

void from_json(const Json& in, WeighedTokens& tokens) {
  in.at("pipeline").get_to(tokens.pipeline);
  in.at("step").get_to(tokens.step);
  in.at("steps").get_to(tokens.steps);
  in.at("heads").get_to(tokens.heads);
  unpack(in.at("sequence"), tokens.sequence);
  unpack(in.at("position"), tokens.position);
  unpack(in.at("token"), tokens.token);
  in.at("text").get_to(tokens.text);
  in.at("shown").get_to(tokens.shown);
  unpack(in.at("loss"), tokens.loss);
  unpack(in.at("weight"), tokens.weight);
}

}  // namespace wmtp
