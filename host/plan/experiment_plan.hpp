// The estimate of `plan`, without training: parameters, bytes per rank under every strategy, tokens, disk. No tensor
// has values, so its time hardly depends on the model's size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plan/step_planner.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {

/// The experiment under one strategy with one adapter.
struct PlannedVariant {
  std::string adapter;
  Strategy strategy = Strategy::full_shard;
  bool is_experiments_own = false;  ///< the experiment's own strategy and adapter
  StepRequest request;
  PlannedStep step;  ///< of each rank
};

struct PlannedData {
  int64_t tokens_a_step = 0;           ///< over all ranks and micro-batches, padding included
  std::optional<int64_t> steps;        ///< nullopt if it depends on data that are not prepared yet
  int64_t sequence_length = 0;         ///< of the longest batch
  bool longest_is_known = true;        ///< if not, `sequence_length` is train.sequence_length; records may be shorter
  bool reads_previous_losses = false;  ///< the pipeline, of which each rank with the heads holds a table
  std::optional<int64_t> previous_losses_bytes;  ///< of the table; nullopt if it depends on data not prepared yet
};

struct ExperimentPlan {
  PlannedData data;
  std::vector<PlannedVariant> variants;  ///< the experiment's own first
  const ParameterCounts& counts() const { return variants.front().step.counts; }
};

/// `cache`: folder of prepared data. `hosts`: of equally many ranks each; with several, hybrid_shard by host is among
/// the variants. `rates`: of their requests, if they are known already. Error(plugin); Error(data) if files of records
/// are missing; Error(usage) as of check_frozen_parameters.
ExperimentPlan plan_experiment(const Experiment& experiment, const Catalog& catalog, const std::filesystem::path& cache,
                               const PlanStep& plan_step, int64_t hosts = 1, const std::optional<Rates>& rates = {});

/// full_shard with 2, 4, ... ranks of a host that divide the positions of each sequence, or the features of each block;
/// shard_grad_op with 2, 4, 8 sections of the model, and the most sections that fill hosts together with the most ranks
/// of a host that divide blocks. Each has as many micro-batches as leave the tokens of a step as they are, in a
/// pipeline smaller ones. Empty if the experiment divides them itself. `rates`: of their requests.
std::vector<PlannedVariant> divided_layouts(const Experiment& experiment, const ExperimentPlan& plan,
                                            const PlanStep& plan_step, const std::optional<Rates>& rates = {});

}  // namespace wmtp
