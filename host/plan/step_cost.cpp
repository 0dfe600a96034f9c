#include "plan/step_cost.hpp"

#include <algorithm>
#include <array>

#include "job/device_peak.hpp"

namespace wmtp {
namespace {

constexpr double tie_tolerance = 1.01;  // differences below the model's accuracy

/// What to minimize, most important first.
std::array<double, 3> sort_key(const StepCost& cost) {
  if (cost.time) return {cost.time->seconds, 0, double(cost.memory)};
  return {cost.traffic.network, cost.traffic.bus, double(cost.memory)};
}

bool is_cheaper(const StepCost& one, const StepCost& other) {
  const auto a = sort_key(one), b = sort_key(other);
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] * tie_tolerance < b[i] || b[i] * tie_tolerance < a[i]) return a[i] < b[i];
  return false;
}

double seconds_of(const Traffic& traffic, const Rates& rates) {
  const auto seconds = [](double bytes, double rate) { return rate > 0 ? bytes / rate : 0; };
  return std::max(seconds(traffic.bus, rates.bus), seconds(traffic.network, rates.network));
}

}  // namespace

std::optional<Rates> rates_on(const Hardware& hardware, Precision precision) {
  if (hardware.products == 0 || precision == Precision::fp32) return std::nullopt;
  return Rates{stated_peak(hardware.device, precision) * hardware.products, hardware.bus, hardware.network};
}

StepTime step_time(const PlanStep& plan_step, const PlannedVariant& variant, const Rates& rates, double peak) {
  StepRequest request = variant.request;
  request.rates = rates;
  const Work work = plan_step(request).work;
  StepTime time;
  time.seconds = work.seconds;
  time.computation = work.operations / rates.operations;
  time.communication = seconds_of(work.traffic, rates);
  if (peak > 0) time.mfu = (work.operations - work.extra) / (peak * time.seconds);
  return time;
}

std::vector<StepCost> step_costs(const PlanStep& plan_step, const ExperimentPlan& plan,
                                 const std::vector<PlannedVariant>& divided, const std::optional<Rates>& rates,
                                 double peak, std::optional<int64_t> memory) {
  std::vector<StepCost> costs;
  const auto add = [&](const PlannedVariant& variant) {
    const int64_t bytes = highest(variant.step.phases)->second.total;
    costs.push_back({&variant, bytes, variant.step.work.traffic, !memory || bytes <= *memory,
                     rates ? std::optional(step_time(plan_step, variant, *rates, peak)) : std::nullopt});
  };
  for (const PlannedVariant& variant : plan.variants)
    if (variant.adapter == plan.variants.front().adapter) add(variant);
  for (const PlannedVariant& variant : divided) add(variant);
  return costs;
}

const StepCost* recommended(const std::vector<StepCost>& costs) {
  const StepCost* best = nullptr;
  for (const StepCost& cost : costs)
    if (cost.fits && (!best || is_cheaper(cost, *best))) best = &cost;
  return best;
}

}  // namespace wmtp
