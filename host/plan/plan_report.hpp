// What `plan` prints, as text or as JSON.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "job/stages.hpp"
#include "plan/batch_fit.hpp"
#include "plan/experiment_plan.hpp"
#include "plan/measured_rate.hpp"
#include "plan/step_cost.hpp"

namespace wmtp {

/// The micro-batches that fit into a given memory.
struct PlannedFit {
  std::string memory;  ///< as given: "80GiB", with what stays free of it
  PlannedBatch largest;
  std::optional<PlannedBatch> same_tokens;
};

/// A layout on given hosts.
struct PlannedCluster {
  int64_t hosts = 1;
  const Hardware* hardware = nullptr;   ///< null: not given
  std::optional<MeasuredRate> like;     ///< instead of hardware
  double gigabits = 0;                  ///< per second between hosts, with `like`; 0: one host
  double socket_seconds = 0;            ///< of computing per byte, as in Rates
  std::optional<int64_t> memory;        ///< of a rank, in bytes
  std::vector<PlannedVariant> divided;  ///< divided_layouts
  std::optional<Rates> rates;           ///< of a rank, for times
  double peak = 0;                      ///< operations per second; 0: unknown
  std::vector<StepCost> costs;          ///< of the plan's variants and of `divided`
  const StepCost* best = nullptr;       ///< of `costs`; null if none fits
};

struct PlanReport {
  const Experiment& experiment;
  const ExperimentPlan& plan;
  const std::vector<RunPlan>& stages;
  size_t members;      ///< in its [sweep]; 0: no sweep
  std::string misfit;  ///< why it does not fit on this machine, or ""
  std::optional<PlannedFit> fit;
  std::optional<PlannedCluster> cluster;
};

/// "61.1 GiB activations"
std::string largest_part(const MemorySnapshot& snapshot);

void print_json(std::ostream& out, const PlanReport& report);
void print_text(std::ostream& out, const PlanReport& report);

}  // namespace wmtp
