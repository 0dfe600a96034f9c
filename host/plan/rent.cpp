#include "plan/rent.hpp"

#include <algorithm>
#include <cmath>

#include "base/json.hpp"
#include "base/text.hpp"
#include "job/device_peak.hpp"
#include "plan/batch_fit.hpp"
#include "report/table.hpp"

namespace wmtp {
namespace {

int64_t missing(const RentRow& row) { return row.fits ? 0 : row.needed_bytes - int64_t(row.card->memory); }

Json rounded(double value, double parts) { return std::round(value * parts) / parts; }

std::string layout_text(const RentRow& row) {
  const std::string layout = layout_of(row.layout);
  if (row.fits) return layout;
  return "does not fit: " + layout + " lacks " + printed("%.2f GiB", double(missing(row)) / (1 << 30));
}

std::string times_text(const Hardware& card) {
  const std::string by = card.calibrated_by;
  return by.empty() ? "not calibrated" : by == card.name ? "calibrated" : "as " + by;
}

}  // namespace

RentRow rent_row(const PlanStep& plan_step, const ExperimentPlan& plan, const std::vector<PlannedVariant>& divided,
                 const Hardware& card, Precision precision) {
  const auto memory = int64_t(card.memory);
  const std::vector<StepCost> costs =
      step_costs(plan_step, plan, divided, rates_on(card, precision), stated_peak(card.device, precision), memory);
  const StepCost* best = recommended(costs);
  const StepCost& chosen = best ? *best : *std::ranges::min_element(costs, {}, &StepCost::needed_bytes);
  const StepRequest& layout = chosen.variant->request;
  RentRow row{&card, layout.hosts, layout, chosen.tensor_bytes, chosen.needed_bytes, chosen.fits, 0, {}, {}};
  if (const auto largest = largest_batch(plan_step, layout, memory)) row.largest_batch = largest->batch_size;
  if (!chosen.fits || !chosen.time) return row;
  row.time = chosen.time;
  row.run = run_cost(plan.data, chosen.time->seconds, layout.ranks);
  return row;
}

void print_rent_text(std::ostream& out, const std::string& name, int64_t batch_size, const std::vector<RentRow>& rows) {
  Table table{{"GPUs", "hosts", "card", "layout", "GiB", "reserved", "largest batch", "step s", "tokens/s", "MFU %",
               "hours", "GPU-hours", "million tokens", "times"},
              {},
              false};
  for (const RentRow& row : rows) {
    std::vector<Json> cells{row.layout.ranks,
                            row.hosts,
                            row.card->name,
                            layout_text(row),
                            rounded(double(row.tensor_bytes) / (1 << 30), 100),
                            rounded(double(row.needed_bytes) / (1 << 30), 100),
                            row.largest_batch};
    if (row.time) {
      cells.insert(cells.end(), {rounded(row.time->seconds, 100), std::llround(significant(row.run->tokens_per_second)),
                                 rounded(100 * row.time->mfu, 10)});
      cells.emplace_back(row.run->hours ? Json(significant(*row.run->hours)) : Json());
      cells.emplace_back(row.run->hours ? Json(significant(row.run->gpu_hours)) : Json());
      cells.emplace_back(row.run->hours ? Json(significant(double(row.run->tokens) / 1e6)) : Json());
      cells.emplace_back(times_text(*row.card));
    } else {
      cells.resize(table.columns.size());
    }
    table.rows.push_back(std::move(cells));
  }
  out << name << " with train.batch_size = " << batch_size << ": the layout that each number of GPUs and card needs\n";
  print_table(out, table, TableFormat::text);
  out << "GiB: peak tensor memory per GPU. reserved: what LibTorch's allocator holds for it, which must fit.\n"
         "largest batch: the largest train.batch_size that fits; times are of "
      << batch_size << ".\nhours, GPU-hours: of all steps of the run, which train these million tokens.\n";
  const auto is_assumed = [](const RentRow& row) { return row.time && *row.card->calibrated_by == '\0'; };
  if (std::ranges::any_of(rows, is_assumed))
    out << "not calibrated: products at the lowest share of the peak that a calibrated card reaches.\n";
}

void print_rent_json(std::ostream& out, const std::string& name, int64_t batch_size, const std::vector<RentRow>& rows) {
  OrderedJson json{{"name", name}, {"batch_size", batch_size}, {"rows", OrderedJson::array()}};
  for (const RentRow& row : rows) {
    OrderedJson one{{"gpus", row.layout.ranks},
                    {"hosts", row.hosts},
                    {"on", row.card->name},
                    {"calibrated_by", *row.card->calibrated_by ? OrderedJson(row.card->calibrated_by) : OrderedJson()},
                    {"strategy", to_string(row.layout.strategy)},
                    {"sequence", row.layout.sequence_ranks},
                    {"tensor", row.layout.tensor_ranks},
                    {"pipeline", row.layout.sections},
                    {"bytes", row.tensor_bytes},
                    {"reserved", row.needed_bytes},
                    {"fits", row.fits},
                    {"missing_bytes", missing(row)},
                    {"largest_batch_size", row.largest_batch},
                    {"time", OrderedJson()}};
    if (row.time) one["time"] = to_json(*row.time, *row.run);
    json["rows"].push_back(one);
  }
  out << json.dump(1) << '\n';
}

}  // namespace wmtp
