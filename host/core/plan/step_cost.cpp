#include "core/plan/step_cost.hpp"

#include <algorithm>
#include <array>

#include "core/job/device_peak.hpp"

namespace wmtp {
namespace {

constexpr double nearly = 1.01;  // differences below the model's accuracy

double seconds(const Traffic& traffic, const Hardware& hardware) {
  return std::max(traffic.bus / hardware.bus, traffic.network / hardware.network);
}

/// What to minimize, most important first.
std::array<double, 3> price(const StepCost& cost) {
  if (cost.time) return {cost.time->seconds(), 0, double(cost.memory)};
  return {cost.traffic.network, cost.traffic.bus, double(cost.memory)};
}

bool is_cheaper(const StepCost& one, const StepCost& other) {
  const auto a = price(one), b = price(other);
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] * nearly < b[i] || b[i] * nearly < a[i]) return a[i] < b[i];
  return false;
}

}  // namespace

std::optional<StepTime> step_time(const PlannedVariant& variant, const Hardware& hardware) {
  const Precision precision = variant.question.policy.precision;
  if (hardware.products == 0 || precision == Precision::fp32) return std::nullopt;
  const double peak = stated_peak(hardware.device, precision);
  const Work& work = variant.memory.work;
  StepTime time;
  time.computation = work.operations / (peak * hardware.products);
  const Traffic overlapped{work.traffic.bus - work.exposed.bus, work.traffic.network - work.exposed.network};
  time.overlapped = seconds(overlapped, hardware);
  time.exposed = seconds(work.exposed, hardware);
  time.mfu = (work.operations - work.extra) / (peak * time.seconds());
  return time;
}

std::vector<StepCost> step_costs(const ExperimentPlan& plan, const Hardware* hardware, std::optional<int64_t> memory) {
  std::vector<StepCost> costs;
  for (const PlannedVariant& variant : plan.variants) {
    if (variant.adapter != plan.variants.front().adapter) continue;
    const int64_t peak = highest(variant.memory.phases)->second.total;
    costs.push_back({&variant, peak, variant.memory.work.traffic, !memory || peak <= *memory,
                     hardware ? step_time(variant, *hardware) : std::nullopt});
  }
  return costs;
}

const StepCost* recommended(const std::vector<StepCost>& costs) {
  const StepCost* best = nullptr;
  for (const StepCost& cost : costs)
    if (cost.fits && (!best || is_cheaper(cost, *best))) best = &cost;
  return best;
}

}  // namespace wmtp
