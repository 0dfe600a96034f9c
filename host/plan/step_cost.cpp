#include "plan/step_cost.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr double tie_tolerance = 1.01;  // differences below the model's accuracy

/// What to minimize, most important first.
std::array<double, 3> sort_key(const StepCost& cost) {
  if (cost.time) return {cost.time->seconds, 0, double(cost.needed_bytes)};
  return {cost.traffic.network, cost.traffic.bus, double(cost.needed_bytes)};
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

StepTime time_of(const RankWork& work, const Rates& rates, double peak) {
  StepTime time;
  time.seconds = work.seconds;
  time.computation = work.operations / rates.operations;
  time.communication = seconds_of(work.traffic, rates);
  if (peak > 0) time.mfu = (work.operations - work.extra) / (peak * time.seconds);
  return time;
}

}  // namespace

StepTime step_time(const PlanStep& plan_step, StepRequest request, const Rates& rates, double peak) {
  request.rates = rates;
  return time_of(plan_step(request).work, rates, peak);
}

RunCost run_cost(const PlannedData& data, double step_seconds, int64_t ranks) {
  RunCost cost{double(data.tokens_a_step) / step_seconds, {}, 0, 0};
  if (!data.steps) return cost;
  cost.hours = double(*data.steps) * step_seconds / 3600;
  cost.gpu_hours = *cost.hours * double(ranks);
  cost.tokens = *data.steps * data.tokens_a_step;
  return cost;
}

std::string layout_of(const StepRequest& request) {
  return std::string(to_string(request.strategy)) +
         (request.sequence_ranks > 1 ? ", sequence " + std::to_string(request.sequence_ranks) : "") +
         (request.tensor_ranks > 1 ? ", tensor " + std::to_string(request.tensor_ranks) : "") +
         (request.sections > 1 ? ", pipeline " + std::to_string(request.sections) + " (" +
                                     std::to_string(request.gradient_accumulation) + " x " +
                                     std::to_string(request.sequences_per_rank) + ")"
                               : "");
}

double significant(double value) { return std::strtod(printed("%.3g", value).c_str(), nullptr); }

OrderedJson to_json(const StepTime& time, const RunCost& run) {
  return {{"seconds", time.seconds},
          {"computation", time.computation},
          {"communication", time.communication},
          {"mfu", time.mfu > 0 ? OrderedJson(time.mfu) : OrderedJson()},
          {"tokens_per_second", run.tokens_per_second},
          {"hours", run.hours ? OrderedJson(*run.hours) : OrderedJson()},
          {"rank_hours", run.hours ? OrderedJson(run.gpu_hours) : OrderedJson()},
          {"run_tokens", run.hours ? OrderedJson(run.tokens) : OrderedJson()}};
}

std::vector<StepCost> step_costs(const PlanStep& plan_step, const ExperimentPlan& plan,
                                 const std::vector<PlannedVariant>& divided, const std::optional<Rates>& rates,
                                 double peak, std::optional<int64_t> memory) {
  std::vector<StepCost> costs;
  const auto add = [&](const PlannedVariant& variant) {
    const int64_t tensors = highest_phase(variant.step.phases)->second.total;
    const int64_t bytes = std::max(variant.step.reserved, tensors);
    std::optional<StepTime> time;
    if (variant.request.rates)  // it was planned with them
      time = time_of(variant.step.work, *rates, peak);
    else if (rates)
      time = step_time(plan_step, variant.request, *rates, peak);
    costs.push_back({&variant, tensors, bytes, variant.step.work.traffic, !memory || bytes <= *memory, time});
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
