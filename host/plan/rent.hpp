// What to rent: an experiment on several numbers of GPUs and several cards, a row for each pair.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "plan/step_cost.hpp"

namespace wmtp {

struct RentRow {
  const Hardware* card = nullptr;
  int64_t hosts = 1;
  StepRequest layout;         ///< the recommended one; if none fits, the one that takes the least memory
  int64_t tensor_bytes = 0;   ///< peak per GPU at the experiment's batch
  int64_t needed_bytes = 0;   ///< that the allocator holds for them
  bool fits = true;           ///< into the card's memory
  int64_t largest_batch = 0;  ///< the largest train.batch_size with which the layout fits; 0: none
  std::optional<StepTime> time;
  std::optional<RunCost> run;  ///< if there is a time
};

/// `plan`: the experiment's, on the GPUs of all hosts. `divided`: its divided_layouts.
RentRow rent_row(const PlanStep& plan_step, const ExperimentPlan& plan, const std::vector<PlannedVariant>& divided,
                 const Hardware& card, Precision precision);

/// `name`, `batch_size`: the experiment's.
void print_rent_text(std::ostream& out, const std::string& name, int64_t batch_size, const std::vector<RentRow>& rows);
void print_rent_json(std::ostream& out, const std::string& name, int64_t batch_size, const std::vector<RentRow>& rows);

}  // namespace wmtp
