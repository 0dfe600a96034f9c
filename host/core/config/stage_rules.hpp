// Rules over an experiment and a stage that it names.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/experiment/bind.hpp"
#include "core/experiment/plugin_description.hpp"

namespace wmtp {

/// What of a model's shape is given as true or false.
inline constexpr std::pair<const char*, bool ModelConfig::*> shape_flags[] = {
    {"qkv_bias", &ModelConfig::qkv_bias}, {"tie_word_embeddings", &ModelConfig::tie_word_embeddings}};

/// What to do where a pipeline that reads values is given scores.
inline constexpr const char* scores_hint =
    "train the critic with loss = \"lambda_return\" or \"monte_carlo\"; or give verifiable critic = \"score\"";

/// A stage, what its pipeline needs and is, and whether it has no mistake.
struct LoadedStage {
  std::shared_ptr<const Experiment> experiment;
  std::optional<PluginNeeds> needs;
  bool is_good = false;
  bool has_objective = false;  ///< which trains value heads, and keeps no head that predicts tokens
};

/// Who names a stage: its table ("model", "reference", "value"), whether its own pipeline is an objective too, and
/// whether that can read scores.
struct StageUser {
  std::string table;
  bool has_objective = false;
  bool reads_scores = false;
};

/// The stage and who names it: one tokenizer or one vocabulary, one separator of documents where the end of files is
/// held out, room for the sequences, for [model] the same shape, for [value] a value head whose values the pipeline can
/// read, elsewhere heads that predict tokens unless the user trains value heads alone.
void check_stage(const Bound& bound, const StageUser& user, const LoadedStage& stage, Diagnostics& diagnostics);

}  // namespace wmtp
