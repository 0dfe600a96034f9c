#include "huggingface/rope_json.hpp"

#include <cmath>
#include <set>

#include "model/model_limits.hpp"

namespace wmtp {
namespace {

constexpr const char* wanted_linear = "rope_type \"linear\" with a factor of at least 1, and nothing else";
constexpr const char* wanted_llama3 =
    "rope_type \"llama3\" with factor (at least 1), low_freq_factor, high_freq_factor (the larger one) and "
    "original_max_position_embeddings, and nothing else";
constexpr const char* wanted_yarn =
    "rope_type \"yarn\" with factor (at least 1) and original_max_position_embeddings, optionally attention_factor, "
    "beta_fast, beta_slow (the smaller one), mscale and mscale_all_dim, truncate true if given, and nothing else";

/// 0 unless the key holds a finite number above 0.
double number(const Json& part, const char* key) {
  if (!part.contains(key) || !part[key].is_number()) return 0;
  const double found = part[key];
  return std::isfinite(found) && found > 0 ? found : 0;
}

/// Whether there are no keys except rope_theta, the type, and `own`.
bool has_only(const Json& part, const std::set<std::string>& own) {
  for (const auto& [key, value] : part.items()) {
    const bool allowed = key == "rope_theta" || key == "rope_type" || key == "type" || value.is_null() ||
                         (key == "partial_rotary_factor" && value == 1.0) || own.contains(key);
    if (!allowed) return false;
  }
  return true;
}

/// nullopt for a type that this program does not have.
std::optional<RopeType> rope_type_name(const Json& part) {
  if (!part.is_object()) return std::nullopt;
  for (const char* key : {"rope_type", "type"})
    if (part.contains(key) && !part[key].is_null())
      return part[key].is_string() ? from_name<RopeType>(part[key].get<std::string>()) : std::nullopt;
  return RopeType::none;
}

/// Of yarn: as given, else from DeepSeek's two keys; 0 if it follows from the factor alone.
double attention_factor(const Json& part, double factor) {
  if (const double given = number(part, "attention_factor"); given > 0) return given;
  const double own = number(part, "mscale"), all = number(part, "mscale_all_dim"), growth = 0.1 * std::log(factor);
  return own > 0 && all > 0 ? (own * growth + 1) / (all * growth + 1) : 0;
}

/// Whether a key is missing or null, or holds a finite number above 0.
bool is_number_if_given(const Json& part, const char* key) {
  return !part.contains(key) || part[key].is_null() || number(part, key) > 0;
}

bool read_llama3(const Json& part, RopeScaling& scaling) {
  scaling.low_freq_factor = number(part, "low_freq_factor");
  scaling.high_freq_factor = number(part, "high_freq_factor");
  return scaling.low_freq_factor > 0 && scaling.high_freq_factor > scaling.low_freq_factor &&
         has_only(part, {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
}

bool read_yarn(const Json& part, RopeScaling& scaling) {
  for (const char* key : {"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"})
    if (!is_number_if_given(part, key)) return false;
  scaling.attention_factor = attention_factor(part, scaling.factor);
  scaling.beta_fast = number(part, "beta_fast");
  scaling.beta_slow = number(part, "beta_slow");
  resolve_defaults(scaling);
  return scaling.beta_fast > scaling.beta_slow && part.value("truncate", Json(true)) == true &&
         has_only(part, {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow",
                         "mscale", "mscale_all_dim", "truncate"});
}

/// The positions that the unscaled model was trained with: in the scaling, or at the top of the file, which
/// transformers prefers.
double trained_length(ExternalJson& keys, const char* scaling, const Json& part) {
  const char* const name = "original_max_position_embeddings";
  if (!keys.has(name)) return number(part, name);
  const Json& top = keys.value(name);
  if (!part.value(name, Json()).is_null() && part[name] != top)
    keys.refuse(name, "the same as in " + std::string(scaling));
  return top.is_number() ? top.get<double>() : 0;
}

}  // namespace

std::optional<RopeScaling> read_rope_scaling(ExternalJson& keys, const char* key) {
  if (!keys.has(key)) return std::nullopt;
  const Json& part = keys.value(key);
  const auto type = rope_type_name(part);
  if (type == RopeType::none && has_only(part, {})) return std::nullopt;
  if (!type || type == RopeType::none) {
    keys.refuse(key, "positions that are not scaled, or scaled by rope_type \"linear\", \"llama3\" or \"yarn\"");
    return std::nullopt;
  }
  RopeScaling scaling{*type, number(part, "factor")};
  bool good = scaling.factor >= 1;
  if (type == RopeType::linear) {
    good = good && has_only(part, {"factor"});
  } else {
    const double length = trained_length(keys, key, part);
    good = good && length >= 2 && length <= max_positions && length == std::floor(length) &&
           (type == RopeType::yarn ? read_yarn(part, scaling) : read_llama3(part, scaling));
    if (good) scaling.original_max_position_embeddings = int64_t(length);
  }
  if (good) return scaling;
  keys.refuse(key, type == RopeType::linear ? wanted_linear : type == RopeType::yarn ? wanted_yarn : wanted_llama3);
  return std::nullopt;
}

double read_rope_theta(ExternalJson& keys, const char* key, double fallback) {
  const Json part = keys.has(key) && keys.value(key).is_object() ? keys.value(key) : Json::object();
  if (part.value("rope_theta", Json()).is_null()) return keys.positive("rope_theta", fallback);
  const double theta = number(part, "rope_theta");
  if (theta > 0) return theta;
  keys.refuse(key, "a rope_theta above 0");
  return fallback;
}

Json rope_scaling_json(const RopeScaling& scaling) {
  Json part{{"rope_type", to_string(scaling.rope_type)}, {"factor", scaling.factor}};
  if (scaling.rope_type == RopeType::llama3) {
    part["low_freq_factor"] = scaling.low_freq_factor;
    part["high_freq_factor"] = scaling.high_freq_factor;
    part["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  }
  if (scaling.rope_type == RopeType::yarn) {
    part["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
    part["attention_factor"] = scaling.attention_factor;
    part["beta_fast"] = scaling.beta_fast;
    part["beta_slow"] = scaling.beta_slow;
  }
  return part;
}

}  // namespace wmtp
