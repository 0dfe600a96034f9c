// Whether this machine holds the ranks of a run, before any of them is started. Knows no LibTorch.
//
// Refused is what would end in the kernel's out-of-memory killer or in hours of waiting: the planned tensors of all
// local ranks against the memory that is available, and ranks against cores. Libraries and plugins take more than
// is planned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/experiment/experiment.hpp"
#include "core/plan/experiment_plan.hpp"
#include "core/plugins/catalog.hpp"

namespace wmtp {

inline constexpr int64_t most_ranks_a_core = 8;

struct Machine {
  int64_t cores = 1;
  std::optional<int64_t> available_bytes;  ///< nothing: not known, or a rank's tensors are not in the host's memory
};

/// This one, for an experiment: its memory counts where the experiment runs on the CPU.
Machine this_machine(const Experiment& experiment);

struct RanksHere {
  int64_t ranks = 1;
  int64_t planned_bytes = 0;   ///< of each, when most is live
  std::string phase;           ///< in which that is
  bool oversubscribe = false;  ///< [parallel] oversubscribe
};

RanksHere ranks_here(const Experiment& experiment, const ExperimentPlan& plan);

/// Why they do not fit, and what to change; "" where they do.
std::string misfit(const RanksHere& ranks, const Machine& machine);

/// Whether an experiment takes so little that nobody needs its plan to know: to ask the engine for one takes as long as
/// to start a run. False where its adapter may add any number of parameters.
bool surely_fits(const Experiment& experiment, const Machine& machine);

/// Error(usage) with the misfit on this machine. `cache`: as plan_experiment. Errors as plan_experiment too.
void check_fits(const Experiment& experiment, const Catalog& catalog, const std::filesystem::path& cache);

}  // namespace wmtp
