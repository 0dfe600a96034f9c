// The cost of a step under each strategy on given hosts and hardware, from the work that its replay counts.
//
// Seconds are those of a simple model, which docs/plan.md explains:
//
//   computation     operations, repeated ones included, at the hardware's calibrated rate
//   communication   bytes over each link at its rate; the slower link counts, because both work at the same time
//   step            the larger of computation and the communication that products overlap with, plus the exposed
//                   communication
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/experiment_plan.hpp"

namespace wmtp {

/// Facts about hardware that may not be here (hardware.cpp).
struct Hardware {
  const char* name;    ///< of `plan --on`
  const char* device;  ///< name in stated_peak (core/job/device_peak.hpp)
  double memory;       ///< bytes of a device
  double bus;          ///< bytes per second that a device receives from the others of its host
  double network;      ///< bytes per second that a device receives from other hosts
  double products;     ///< operations of a training per second, as a share of the peak; 0: not calibrated
};

/// Error(usage) for another name.
const Hardware& hardware_named(const std::string& name);

struct StepTime {
  double computation = 0;
  double overlapped = 0, exposed = 0;  ///< communication
  double mfu = 0;                      ///< as perf/mfu: of the stated peak, without repeated operations
  double seconds() const { return std::max(computation, overlapped) + exposed; }
  bool hides_communication() const { return overlapped <= computation; }
};

struct StepCost {
  const PlannedVariant* variant;
  int64_t memory = 0;  ///< peak per rank
  Traffic traffic;     ///< per rank
  bool fits = true;    ///< into the memory, if that is known
  std::optional<StepTime> time;
};

/// nullopt without calibration, and in fp32, because all calibrations are in bf16.
std::optional<StepTime> step_time(const PlannedVariant& variant, const Hardware& hardware);

/// Of the experiment's adapter under every strategy. `hardware`: nullptr if unknown. `memory`: bytes per rank, if known.
std::vector<StepCost> step_costs(const ExperimentPlan& plan, const Hardware* hardware, std::optional<int64_t> memory);

/// Of those that fit, the one with the shortest step, or without times with the fewest bytes over the network, then over
/// the bus; among nearly equal ones, the one with the least memory. Null if none fits.
const StepCost* recommended(const std::vector<StepCost>& costs);

}  // namespace wmtp
