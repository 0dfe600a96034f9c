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

namespace wmtp {

/// Facts about hardware that may not be here (hardware.cpp).
struct Hardware {
  const char* name;    ///< of `plan --on`
  const char* device;  ///< name in stated_peak (job/device_peak.hpp)
  double memory;       ///< bytes of a device
  double bus;          ///< bytes per second that a device receives from the others of its host
  double network;      ///< bytes per second that a device receives from other hosts
  double products;     ///< operations of a training per second, as a share of the peak; 0: not calibrated
};

/// Error(usage) for another name.
const Hardware& find_hardware(const std::string& name);

/// Calibrated rates of a device. nullopt without calibration, and in fp32, because all calibrations are in bf16.
std::optional<Rates> rates_on(const Hardware& hardware, Precision precision);

struct StepTime {
  double seconds = 0;
  double computation = 0, communication = 0;  ///< of this time; they overlap
  double mfu = 0;  ///< as perf/mfu: of the stated peak, without repeated operations; 0: unknown
};

struct StepCost {
  const PlannedVariant* variant;
  int64_t memory = 0;  ///< peak per rank
  Traffic traffic;     ///< per rank
  bool fits = true;    ///< into the memory, if that is known
  std::optional<StepTime> time;
};

/// `peak`: operations per second for MFU; 0: unknown.
StepTime step_time(const PlanStep& plan_step, const PlannedVariant& variant, const Rates& rates, double peak);

/// Of the experiment's adapter under every strategy, then of `divided`. `memory`: bytes per rank, if known.
std::vector<StepCost> step_costs(const PlanStep& plan_step, const ExperimentPlan& plan,
                                 const std::vector<PlannedVariant>& divided, const std::optional<Rates>& rates,
                                 double peak, std::optional<int64_t> memory);

/// Of those that fit, the one with the shortest step, or without times with the fewest bytes over the network, then
/// over the bus; among nearly equal ones, the one with the least memory. Null if none fits.
const StepCost* recommended(const std::vector<StepCost>& costs);

}  // namespace wmtp
