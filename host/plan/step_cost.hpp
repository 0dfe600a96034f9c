// The cost of a step under each strategy on given hosts and hardware, from the work that the planned step counts.
//
// Seconds are those of the planned step with a rate for operations and one for each link, which docs/plan.md explains:
// operations follow one another, and so do collectives; a step waits for a collective where the engine does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/experiment_plan.hpp"
#include "plan/hardware.hpp"

namespace wmtp {

struct StepTime {
  double seconds = 0;
  double computation = 0, communication = 0;  ///< of this time; they overlap
  double mfu = 0;  ///< as perf/mfu: of the stated peak, without repeated operations; 0: unknown
};

/// What all steps of a run take.
struct RunCost {
  double tokens_per_second = 0;  ///< of all ranks, padding included
  std::optional<double> hours;   ///< nullopt if the number of steps is unknown
  double gpu_hours = 0;          ///< hours of all ranks together
  int64_t tokens = 0;            ///< of the run
};
RunCost run_cost(const PlannedData& data, double step_seconds, int64_t ranks);

struct StepCost {
  const PlannedVariant* variant;
  int64_t tensor_bytes = 0;  ///< peak per rank
  int64_t needed_bytes = 0;  ///< that must fit: on a CUDA device what its allocator holds
  Traffic traffic;           ///< per rank
  bool fits = true;          ///< into the memory, if that is known
  std::optional<StepTime> time;
};

/// `peak`: operations per second for MFU; 0: unknown.
StepTime step_time(const PlanStep& plan_step, StepRequest request, const Rates& rates, double peak);

/// "full_shard, sequence 2"
std::string layout_of(const StepRequest& request);
/// Three digits, as hours are printed.
double significant(double value);
OrderedJson to_json(const StepTime& time, const RunCost& run);

/// Of the experiment's adapter under every strategy, then of `divided`. `rates`: those of the variants' requests where
/// these have some. `memory`: bytes per rank, if known.
std::vector<StepCost> step_costs(const PlanStep& plan_step, const ExperimentPlan& plan,
                                 const std::vector<PlannedVariant>& divided, const std::optional<Rates>& rates,
                                 double peak, std::optional<int64_t> memory);

/// Of those that fit, the one with the shortest step, or without times with the fewest bytes over the network, then
/// over the bus; among nearly equal ones, the one with the least memory. Null if none fits.
const StepCost* recommended(const std::vector<StepCost>& costs);

}  // namespace wmtp
