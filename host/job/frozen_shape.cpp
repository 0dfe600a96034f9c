#include "job/frozen_shape.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "experiment/reference_heads.hpp"
#include "huggingface/initial_weights.hpp"
#include "job/named_weights.hpp"

namespace wmtp {
namespace {

bool is_of_another_kind(const StoredHeads& stored, const FrozenConfig& reference) {
  return stored.count > 1 && reference.model && stored.kind != reference.model->future_heads;
}

/// One block of a chained head fits as many shared heads as the shape states.
StoredHeads as_shared(StoredHeads stored, const ModelConfig& shape) {
  const bool has_one_block =
      stored.kind == FutureHeads::shared || (stored.kind == FutureHeads::chained && stored.count == 2);
  return has_shared_heads(shape) && has_one_block ? StoredHeads{shape.future_tokens, FutureHeads::shared, {}} : stored;
}

/// The heads of `stored` that the reference has by its table and that predict the same tokens as the policy's.
int64_t usable_heads(const StoredHeads& stored, const Experiment& experiment, const FrozenConfig& reference) {
  if (is_of_another_kind(stored, reference)) return 1;
  const int64_t heads = reference.model ? std::min(stored.count, reference.model->future_tokens) : stored.count;
  return common_heads(heads, stored.offsets.value_or(experiment.model.future_offsets), experiment.model);
}

[[noreturn]] void refuse_own(const std::string& table, const Experiment& experiment,
                             const std::filesystem::path& weights, const StoredHeads& stored) {
  const std::string refused =
      experiment.file.string() + ": [" + table + "] heads = \"own\": " + weights.string() + ": found ";
  const FrozenConfig& reference = frozen_config(experiment, table);
  if (is_of_another_kind(stored, reference))
    throw Error(ExitStatus::data, refused + to_string(stored.kind) + " heads, [" + table + ".model] has " +
                                      to_string(reference.model->future_heads) + " ones; set its future_heads to \"" +
                                      to_string(stored.kind) + "\"");
  const ModelConfig& policy = experiment.model;
  const std::string wanted =
      stored.count < policy.future_tokens
          ? counted(stored.count, "head") +
                ", wanted at least [model] future_tokens = " + std::to_string(policy.future_tokens)
          : "heads with future_offsets " + offsets_text(stored.offsets.value_or(policy.future_offsets), stored.count) +
                ", wanted those of [model], " + offsets_text(policy.future_offsets, policy.future_tokens);
  throw Error(ExitStatus::data, refused + wanted + "; " + own_heads_hint);
}

/// With the heads to read, if weights have them.
FrozenShape reference_shape(const std::string& table, ModelConfig model, const Experiment& experiment,
                            const std::filesystem::path& weights) {
  const FrozenConfig& reference = frozen_config(experiment, table);
  const int64_t wanted = experiment.model.future_tokens;
  if (wanted == 1 || reference.heads == ReferenceHeads::next) return {std::move(model), 1};
  const StoredHeads stored = as_shared(stored_heads(weights), model);
  const int64_t found = usable_heads(stored, experiment, reference);
  if (lacks_own_heads(reference.heads, found, wanted)) refuse_own(table, experiment, weights, stored);
  if (!reads_own_heads(reference.heads, found, wanted)) return {std::move(model), 1};
  model.layers += stored.count - model.future_tokens;  // the trunk stays as it is stated
  model.future_tokens = stored.count;
  model.future_heads = stored.kind;
  model.future_offsets = experiment.model.future_offsets;
  return {std::move(model), wanted};
}

}  // namespace

FrozenShape frozen_shape(const std::string& table, const Experiment& experiment, const std::filesystem::path& weights) {
  const bool is_reference = is_reference_table(table);
  const FrozenConfig& config = frozen_config(experiment, table);
  if (const Experiment* stage = config.model ? nullptr : experiment.stage(table)) {
    const int64_t policy = experiment.model.future_tokens;
    const int64_t common = common_heads(stage->model.future_tokens, stage->model.future_offsets, experiment.model);
    const bool reads_own = is_reference && reads_own_heads(config.heads, common, policy);
    return {stage->model, !is_reference ? 0 : reads_own ? policy : 1};
  }
  ModelConfig model = config.model ? *config.model : read_model_config(weights, experiment.model);
  return is_reference ? reference_shape(table, std::move(model), experiment, weights)
                      : FrozenShape{std::move(model), 0};
}

bool reads_own_heads(const std::string& table, const Experiment& experiment, const std::filesystem::path& database) {
  const FrozenConfig& reference = frozen_config(experiment, table);
  if (!is_reference_table(table) || !reference.given || experiment.model.future_tokens == 1) return false;
  try {
    const std::filesystem::path weights =
        reference.weights.empty() ? std::filesystem::path() : resolve_weights(reference.weights, experiment, database);
    return frozen_shape(table, experiment, weights).token_heads > 1;
  } catch (const Error&) {
    return false;
  }
}

std::vector<ModelConfig> models_of(const Experiment& experiment) {
  std::vector<ModelConfig> models{experiment.model};
  for (const auto& [table, frozen] : frozen_tables(experiment)) {
    if (!frozen->given) continue;
    const Experiment* const stage = experiment.stage(table);
    models.push_back(frozen->model ? *frozen->model : stage ? stage->model : experiment.model);
  }
  return models;
}

Experiment with_shapes_of_weights(Experiment experiment, const std::filesystem::path& database) {
  const Experiment stated = experiment;
  const auto read = [&](const std::string& table, FrozenConfig& frozen) {
    if (!frozen.given) return;
    if (is_reference_table(table))
      frozen.heads = reads_own_heads(table, stated, database) ? ReferenceHeads::own : ReferenceHeads::next;
    if (frozen.model || stated.stage(table)) return;
    try {
      frozen.model = frozen_shape(table, stated, resolve_weights(frozen.weights, stated, database)).model;
    } catch (const Error&) {
    }
  };
  read("reference", experiment.reference);
  for (auto& [name, frozen] : experiment.references) read(reference_table(name), frozen);
  read("value", experiment.value);
  return experiment;
}

}  // namespace wmtp
