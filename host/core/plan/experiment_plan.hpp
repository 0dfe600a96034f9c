// What an experiment would take, worked out without training: parameters, bytes on each rank under every strategy,
// tokens, disk. No tensor is made; a model of any size takes as long. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/memory.hpp"
#include "core/plugins/catalog.hpp"

namespace wmtp {

/// The experiment under one strategy with one adapter.
struct PlannedVariant {
  std::string adapter;
  Strategy strategy = Strategy::full_shard;
  bool is_this_one = false;  ///< as the experiment says
  PlannedMemory memory;      ///< of each rank
};

struct PlannedData {
  int64_t tokens_a_step = 0;     ///< over all ranks and micro-batches, padding too
  std::optional<int64_t> steps;  ///< nothing where only the prepared data tell
  int64_t positions = 0;         ///< of the longest batch
  bool longest_is_known = true;  ///< else `positions` is train.sequence_length, which records may not reach
};

struct ExperimentPlan {
  int64_t parameters = 0, trained = 0;    ///< of the policy, the adapter's and value heads' included
  std::map<std::string, int64_t> frozen;  ///< parameters of the other models that are read, by table
  PlannedData data;
  int64_t training_state_bytes = 0, model_bytes = 0;  ///< one checkpoint to resume from; model/ at the end
  std::vector<PlannedVariant> variants;               ///< this one first
};

/// `cache`: where prepared data would lie. Error(plugin), Error(data) when records' files are not there.
ExperimentPlan plan_experiment(const Experiment& experiment, const Catalog& catalog,
                               const std::filesystem::path& cache);

}  // namespace wmtp
