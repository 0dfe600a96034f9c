// Rules between an experiment and the stages that it names.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "experiment/bind.hpp"
#include "experiment/plugin_description.hpp"

namespace wmtp {

/// Hint for a pipeline that reads values but would get scores.
inline constexpr const char* scores_hint =
    "train the critic with loss = \"lambda_return\" or \"monte_carlo\"; or give verifiable critic = \"score\"";

struct LoadedStage {
  std::shared_ptr<const Experiment> experiment;
  std::optional<PluginNeeds> needs;
  bool is_good = false;        ///< without errors
  bool has_objective = false;  ///< its pipeline is an objective: trains value heads and produces no token heads
};

/// The experiment that names the stage.
struct StageUser {
  std::string table;           ///< the table that names the stage: "model", or that of a frozen model
  bool has_objective = false;  ///< its pipeline is an objective
  bool reads_scores = false;   ///< its pipeline accepts scores
};

/// Adds an error unless both have the same tokenizer (or vocabulary), the same document separator if the end of files
/// is held out, and the stage's model is long enough; for [model]: the same shape; for [value]: a value head that the
/// pipeline can read; for the others: token heads, unless the user's pipeline is an objective; for references: as many
/// of them as heads = "own" reads.
void check_stage(const BoundExperiment& bound, const StageUser& user, const LoadedStage& stage,
                 Diagnostics& diagnostics);

}  // namespace wmtp
