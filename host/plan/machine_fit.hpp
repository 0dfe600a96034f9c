// Checks that a run fits on this machine before its ranks start.
//
// Refuses runs that would be killed for memory or take hours: the planned tensors of all local ranks must fit into the
// available memory, and the number of ranks per core is limited. Libraries and plugins need additional memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "experiment/experiment.hpp"
#include "plan/experiment_plan.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {

inline constexpr int64_t max_ranks_per_core = 8;

struct Machine {
  int64_t cores = 1;
  std::optional<int64_t> available_bytes;  ///< nullopt if unknown, or if tensors are not in host memory
  int64_t hosts = 1;                       ///< number of such machines that share the ranks equally
};

/// This machine. Its memory only counts if the experiment runs on the CPU.
Machine this_machine(const Experiment& experiment);

struct LocalRanks {
  int64_t ranks = 1;
  int64_t planned_bytes = 0;   ///< peak of each rank
  std::string phase;           ///< the phase with the peak
  bool oversubscribe = false;  ///< [parallel] oversubscribe
};

LocalRanks local_ranks_to_fit(const Experiment& experiment, const ExperimentPlan& plan, const Machine& machine);

/// Why the ranks do not fit, and what to change; "" if they fit.
std::string misfit(const LocalRanks& ranks, const Machine& machine);

/// Whether an experiment is so small that it fits by a rough bound. Avoids planning, which takes as long as starting a
/// run. False if its adapter has options, because they may add any number of parameters.
bool surely_fits(const Experiment& experiment, const Machine& machine);

/// Error(usage) if the experiment does not fit on this machine and `hosts` - 1 others like it, or uses frozen
/// parameters that it lacks (check_frozen_parameters). `database`: as of StepPlanner. Other errors: as plan_experiment.
void check_fits(const Experiment& experiment, const Catalog& catalog, const std::filesystem::path& database,
                int64_t hosts);

}  // namespace wmtp
