#include "plan/machine_fit.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/machine.hpp"
#include "base/text.hpp"
#include "job/frozen_shape.hpp"
#include "log/run_folders.hpp"
#include "model/model_tensors.hpp"

namespace wmtp {
namespace {

std::string mebibytes(int64_t bytes) { return with_thousands((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

std::string ranks_text(const LocalRanks& ranks) {
  return counted(ranks.ranks, "rank") + " of " + mebibytes(ranks.planned_bytes) + (ranks.ranks == 1 ? "" : " each");
}

/// Upper bound on the bytes per rank, far above any plan: 16 copies of the parameters in fp32, and for each token of
/// the micro-batch 16 vectors of both widths in each block and 4 rows of logits.
double at_most(const ModelConfig& model, const TrainConfig& train) {
  const double tokens = double(train.batch_size) * double(train.sequence_length);
  const double of_token = 16 * double(model.layers * (model.dim + model.ffn_dim)) + 4 * double(model.vocab_size);
  return sizeof(float) * (16 * double(num_parameters(model)) + tokens * of_token);
}

}  // namespace

Machine this_machine(const Experiment& experiment) {
  Machine machine{usable_cores(), std::nullopt, 1};
  const DeviceChoice device = experiment.parallel.device;
  const bool on_cpu =
      device == DeviceChoice::cpu || (device == DeviceChoice::automatic && !std::filesystem::exists("/dev/nvidiactl"));
  if (on_cpu) machine.available_bytes = available_memory();
  return machine;
}

std::string misfit(const LocalRanks& ranks, const Machine& machine) {
  if (const auto available = machine.available_bytes; available && ranks.planned_bytes > *available / ranks.ranks)
    return ranks_text(ranks) + " (tensors, planned; most in " + ranks.phase + "): more than the " +
           mebibytes(*available) +
           " of memory available here; lower train.batch_size, train.sequence_length or the model's size, raise "
           "parallel.activation_checkpointing, shard more (parallel.strategy), or start fewer processes; `wmtp-host "
           "plan` compares strategies";
  if (!ranks.oversubscribe && ranks.ranks > max_ranks_per_core * machine.cores)
    return ranks_text(ranks) + " (tensors, planned) for " + counted(machine.cores, "usable core") + ", at most " +
           with_thousands(max_ranks_per_core * machine.cores) + " ranks are allowed; lower parallel.processes " +
           "(--nproc), or set parallel.oversubscribe = true";
  return "";
}

LocalRanks local_ranks_to_fit(const Experiment& experiment, const ExperimentPlan& plan, const Machine& machine) {
  const auto peak = highest_phase(plan.variants.front().step.phases);
  return {experiment.parallel.processes / machine.hosts, peak->second.total, peak->first,
          experiment.parallel.oversubscribe};
}

bool surely_fits(const Experiment& experiment, const Machine& machine) {
  const int64_t ranks = experiment.parallel.processes / machine.hosts;
  if (!experiment.parallel.oversubscribe && ranks > max_ranks_per_core * machine.cores) return false;
  if (!machine.available_bytes) return true;
  if (!experiment.adapter.options.empty() || experiment.auxiliary_loss) return false;
  double bytes = 0;
  for (const ModelConfig& model : models_of(experiment)) bytes += at_most(model, experiment.train);
  return bytes * double(ranks) < double(*machine.available_bytes);
}

void check_fits(const Experiment& stated, const Catalog& catalog, const std::filesystem::path& database,
                int64_t hosts) {
  const Experiment experiment = with_shapes_of_weights(stated, database);
  Machine machine = this_machine(experiment);
  machine.hosts = hosts;
  const ParallelConfig& parallel = experiment.parallel;
  const bool uses_frozen_options = parallel.replicate_frozen || parallel.cpu_offload == CpuOffload::all;
  // A table of all tokens of the data.
  const bool keeps_losses = std::ranges::count(pipeline_needs(experiment, catalog).reads, previous_loss) > 0;
  if (!uses_frozen_options && !keeps_losses && surely_fits(experiment, machine)) return;
  StepPlanner planner(catalog, database);
  const ExperimentPlan plan =
      plan_experiment(experiment, catalog, cache_folder_path(database), planner.steps_of(experiment));
  const std::string why = misfit(local_ranks_to_fit(experiment, plan, machine), machine);
  if (!why.empty()) throw Error(ExitStatus::usage, experiment.file.string() + ": " + why);
}

}  // namespace wmtp
