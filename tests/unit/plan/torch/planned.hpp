// Experiments whose steps are planned in the test's process.
#pragma once

#include <utility>

#include "memory/allocator.hpp"
#include "memory/meta_device.hpp"
#include "plan/experiment_plan.hpp"
#include "plan/torch/meta_rows.hpp"
#include "plan/torch/planned_step.hpp"
#include "support/tiny_training.hpp"

namespace wmtp::test {

/// A layout, and the experiment that it is of.
struct TestPlan : StepRequest {
  Experiment experiment;
  std::function<std::unique_ptr<Weighting>()> weighting = baseline;
  std::function<std::unique_ptr<Adapter>()> adapter = [] { return std::make_unique<Everything>(); };
};

inline void install_meta_device_for(const StepRequest& request) {
  static MetaRows rows;
  install_allocator();
  kernels::set_device_rows(&rows);
  install_meta_device(request.on_cuda ? at::kCUDA : at::kCPU);
}
inline OpenParts parts_of(const TestPlan& plan) {
  return [&plan](const Experiment&) { return StepParts{pipeline_of(plan.weighting()), plan.adapter()}; };
}
inline PlanStep planner_of(const TestPlan& plan) {
  return [plan](const StepRequest& request) {
    install_meta_device_for(request);
    KnownSteps known;
    return plan_step(plan.experiment, request, parts_of(plan), known);
  };
}
inline PlannedStep planned(const TestPlan& plan) { return planner_of(plan)(plan); }
inline PlannedStep planned(const TestPlan& plan, int rank) {
  install_meta_device_for(plan);
  KnownSteps known;
  return plan_rank(plan.experiment, plan, parts_of(plan), rank, known).step;
}

/// What the phases of a run hold beyond the live bytes `before` it.
inline std::map<std::string, MemorySnapshot> phases_since(const MemoryUsage& before) {
  auto phases = memory_usage().phases;
  phases.erase("start");  // the machine's speed, which may be measured again
  for (auto& [name, phase] : phases) {
    phase.total -= before.live_total;
    for (size_t i = 0; i < num_memory_categories; ++i) phase.bytes[i] -= before.live[i];
  }
  return phases;
}

/// On one rank.
inline TestPlan plan_of(const ModelConfig& model, int64_t sequences, int64_t positions) {
  TestPlan plan;
  plan.experiment.model = model;
  plan.sequences_per_rank = sequences;
  plan.sequence_length = positions;
  return plan;
}

/// Two blocks of the trunk and two heads; widths that are multiples of 64.
inline TestPlan small_plan() {
  ModelConfig m;
  m.dim = 64;
  m.layers = 4;
  m.heads = m.kv_heads = 4;
  m.ffn_dim = 192;
  m.vocab_size = 512;
  m.future_tokens = 2;
  return plan_of(m, 4, 128);
}

}  // namespace wmtp::test
