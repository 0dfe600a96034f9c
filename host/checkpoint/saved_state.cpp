#include "checkpoint/saved_state.hpp"

#include <cmath>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/json_text.hpp"

namespace wmtp {
namespace {

/// More tokens than any run reads, and few enough that sums of counts do not overflow.
constexpr int64_t max_tokens = int64_t(1) << 53;

SavedState::Scale read_scale(const Json& object, const std::string& where, int64_t step, ExitStatus status) {
  JsonFields fields(object, where + ": state: loss_scale", status);
  SavedState::Scale saved;
  const Json& scale = fields.value("scale");
  int exponent = 0;
  if (!scale.is_number() || std::frexp(scale.get<double>(), &exponent) != 0.5 || exponent < 1)
    fields.refuse("scale is " + json_text(scale) + "; wanted a power of two, at least 1");
  saved.scale = scale.get<double>();
  saved.finite_steps = fields.integer("finite_steps", step);
  saved.overflows_left = fields.integer("overflows_left", max_overflows_left);
  fields.finish();
  return saved;
}

RunProgress read_results(const Json& object, const std::string& where, int64_t step, ExitStatus status) {
  JsonFields fields(object, where + ": state: results", status);
  RunProgress results;
  const auto read = [&](const char* key, std::optional<double>& value) {
    if (!fields.has(key)) return;
    const Json& found = fields.value(key);
    if (!found.is_number()) fields.refuse(std::string(key) + " is " + json_text(found) + "; wanted a number");
    value = found.get<double>();
  };
  read("epoch", results.epoch);
  read("train_loss", results.train_loss);
  read("valid_loss", results.valid_loss);
  read("best_loss", results.best_loss);
  if (fields.has("valid_step")) results.valid_step = fields.integer("valid_step", step);
  fields.finish();
  return results;
}

Json results_json(const RunProgress& results) {
  Json object = Json::object();
  const auto add = [&](const char* key, const std::optional<double>& value) {
    if (value && std::isfinite(*value)) object[key] = *value;
  };
  add("epoch", results.epoch);
  add("train_loss", results.train_loss);
  add("valid_loss", results.valid_loss);
  add("best_loss", results.best_loss);
  if (object.contains("valid_loss")) object["valid_step"] = results.valid_step;
  return object;
}

void read_pipeline_state_shapes(const Json& object, const std::string& where, ExitStatus status, SavedState& saved) {
  JsonFields shapes(object, where + ": state: pipeline_tensors", status);
  for (const auto& [name, ignored] : object.items()) saved.pipeline_state_shapes[name] = shapes.integers(name);
}

}  // namespace

Json to_json(const SavedState& saved) {
  Json state{{"tokens", saved.tokens},
             {"guard_window", saved.guard_window},
             {"skipped_in_a_row", saved.skipped_in_a_row},
             {"optimizer_steps", saved.optimizer_steps}};
  if (saved.drawn) state["drawn"] = *saved.drawn;
  if (!saved.base_fingerprint.empty()) state["base_fingerprint"] = saved.base_fingerprint;
  if (const auto& scale = saved.loss_scale)
    state["loss_scale"] = {
        {"scale", scale->scale}, {"finite_steps", scale->finite_steps}, {"overflows_left", scale->overflows_left}};
  if (!saved.pipeline_state_shapes.empty()) state["pipeline_tensors"] = saved.pipeline_state_shapes;
  if (const Json results = results_json(saved.results); !results.empty()) state["results"] = results;
  return state;
}

SavedState saved_state(const Manifest& manifest, const std::string& where, ExitStatus status) {
  JsonFields fields(manifest.state, where + ": state", status);
  SavedState saved;
  saved.tokens = fields.integer("tokens", max_tokens);
  if (fields.has("drawn")) saved.drawn = fields.integer("drawn", max_tokens);
  const std::vector<double> window = fields.numbers("guard_window");
  saved.guard_window.assign(window.begin(), window.end());
  saved.skipped_in_a_row = fields.integer("skipped_in_a_row", manifest.step);
  if (fields.has("base_fingerprint")) saved.base_fingerprint = fields.text("base_fingerprint");
  if (fields.has("loss_scale")) saved.loss_scale = read_scale(fields.value("loss_scale"), where, manifest.step, status);
  if (fields.has("results")) saved.results = read_results(fields.value("results"), where, manifest.step, status);
  const Json& groups = fields.object("optimizer_steps");
  JsonFields steps(groups, where + ": state: optimizer_steps", status);
  for (const auto& [group, ignored] : groups.items())
    saved.optimizer_steps[group] = steps.integer(group, manifest.step);
  if (fields.has("pipeline_tensors"))
    read_pipeline_state_shapes(fields.value("pipeline_tensors"), where, status, saved);
  fields.finish();
  return saved;
}

}  // namespace wmtp
