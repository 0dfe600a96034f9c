#include "experiment/experiment.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/normal_path.hpp"
#include "base/text.hpp"
#include "experiment/batch_size.hpp"
#include "experiment/plugin_description.hpp"

namespace wmtp {
namespace {

/// "8 processes", or of them those of a section.
std::string ranks_text(const Experiment& experiment, int64_t processes) {
  const int64_t sections = experiment.parallel.pipeline;
  if (sections == 1) return std::to_string(processes) + " processes";
  return std::to_string(processes / sections) + " processes of each section (pipeline = " + std::to_string(sections) +
         ")";
}

}  // namespace

std::filesystem::path Experiment::resolve(const std::string& path) const {
  return absolute_path(file.parent_path() / path);
}

bool is_reference_name(const std::string& name) {
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto allowed = [&](char c) { return lower(c) || (c >= '0' && c <= '9') || c == '_'; };
  constexpr const char* taken[] = {"reference", "policy", "value", "data"};
  return !name.empty() && name.size() <= 32 && lower(name[0]) && std::ranges::all_of(name, allowed) &&
         std::ranges::count(taken, name) == 0;
}

std::vector<std::pair<std::string, const FrozenConfig*>> frozen_tables(const Experiment& e) {
  std::vector<std::pair<std::string, const FrozenConfig*>> tables{{"reference", &e.reference}};
  for (const auto& [name, frozen] : e.references) tables.emplace_back(reference_table(name), &frozen);
  tables.emplace_back("value", &e.value);
  return tables;
}

const FrozenConfig& frozen_config(const Experiment& e, const std::string& table) {
  const auto tables = frozen_tables(e);
  return *std::ranges::find(tables, table, [](const auto& one) { return one.first; })->second;
}

OptionValues given_options(const PluginChoice& choice) {
  OptionValues given;
  for (const std::string& name : choice.given) given[name] = choice.options.at(name);
  return given;
}

void resolve_defaults(RopeScaling& scaling) {
  if (scaling.rope_type != RopeType::yarn) return;
  if (scaling.attention_factor == 0) scaling.attention_factor = 0.1 * std::log(scaling.factor) + 1;
  if (scaling.beta_fast == 0) scaling.beta_fast = 32;
  if (scaling.beta_slow == 0) scaling.beta_slow = 1;
}

std::string first_read(const PluginNeeds& needs, const std::string& model) {
  for (const std::string& read : needs.reads)
    if (read.starts_with(model + ".")) return read;
  return "";
}

int64_t ranks_per_host(const Experiment& experiment, int64_t hosts) {
  const int64_t processes = experiment.parallel.processes;
  if (processes % hosts == 0) return processes / hosts;
  throw Error(ExitStatus::usage, experiment.file.string() + ": " + counted(processes, "process", "es") +
                                     " (parallel.processes) cannot be divided equally among " + std::to_string(hosts) +
                                     " nodes; choose a multiple, for example --nproc " +
                                     std::to_string((processes / hosts + 1) * hosts));
}

Experiment with_host_shard_groups(Experiment experiment, int64_t ranks, int64_t processes) {
  int64_t& size = experiment.parallel.shard_group_size;
  if (size == host_shard_groups) size = std::min(ranks, processes / experiment.parallel.pipeline);
  return experiment;
}

std::string offsets_text(const std::vector<int64_t>& offsets, int64_t heads) {
  std::vector<double> all;
  for (int64_t k = 1; k <= heads; ++k) all.push_back(double(future_offset(offsets, k)));
  return toml_text(all);
}

std::string shard_group_misfit(const Experiment& experiment, int64_t processes) {
  const int64_t size = experiment.parallel.shard_group_size;
  if (size == 0) return "";
  if (processes / experiment.parallel.pipeline % size != 0)
    return "found shard_group_size " + std::to_string(size) + " for " + ranks_text(experiment, processes) +
           ", wanted a divisor of the number of processes";
  const int64_t tensor = experiment.parallel.tensor;
  if (size == host_shard_groups || size % tensor == 0) return "";
  return "found shard_group_size " + std::to_string(size) + " for tensor " + std::to_string(tensor) +
         ", wanted a multiple: the ranks of a shard group hold all pieces of the model";
}

std::string global_batch_misfit(const Experiment& experiment, int64_t processes) {
  const TrainConfig& train = experiment.train;
  const int64_t ranks = data_ranks(experiment.parallel, processes), round = ranks * train.batch_size;
  if (train.global_batch_size == 0 || round == 0 || train.global_batch_size % round == 0) return "";
  const int64_t lower = train.global_batch_size / round * round;
  return "found global_batch_size " + std::to_string(train.global_batch_size) + " for " + counted(ranks, "rank") +
         (ranks_per_sequence(experiment.parallel) > 1 ? " that read different sequences" : "") + " x batch_size " +
         std::to_string(train.batch_size) + ", wanted a multiple of " + std::to_string(round) + ": for example " +
         (lower > 0 ? std::to_string(lower) + " or " : "") + std::to_string(lower + round);
}

std::string sequence_ranks_text(const ParallelConfig& parallel) {
  const std::string sequence = "sequence " + std::to_string(parallel.sequence);
  const std::string tensor = "tensor " + std::to_string(parallel.tensor);
  if (parallel.tensor == 1) return sequence;
  return parallel.sequence == 1 ? tensor : sequence + " x " + tensor;
}

std::string pipeline_misfit(const Experiment& experiment, int64_t processes) {
  if (processes % experiment.parallel.pipeline == 0) return "";
  return "found pipeline " + std::to_string(experiment.parallel.pipeline) + " for " + std::to_string(processes) +
         " processes, wanted a divisor of the number of processes";
}

std::string sequence_misfit(const Experiment& experiment, int64_t processes) {
  if (processes / experiment.parallel.pipeline % ranks_per_sequence(experiment.parallel) == 0) return "";
  return "found " + sequence_ranks_text(experiment.parallel) + " for " + ranks_text(experiment, processes) +
         ", wanted a divisor of the number of processes";
}

std::string block_misfit(const ModelConfig& shape, const ParallelConfig& parallel) {
  const int64_t tensor = parallel.tensor;
  if (shape.kv_heads % ranks_per_sequence(parallel) != 0)
    return "found " + sequence_ranks_text(parallel) + " for " + std::to_string(shape.kv_heads) +
           " kv_heads, wanted a divisor: each rank computes the attention of equally many heads";
  if (shape.ffn_dim % tensor != 0)
    return "found tensor " + std::to_string(tensor) + " for ffn_dim " + std::to_string(shape.ffn_dim) +
           ", wanted a divisor: each rank has equally many features of the feed-forward layers";
  if (tensor > 1 && shape.joint_qk_norm)
    return "found tensor " + std::to_string(tensor) +
           " with joint_qk_norm = true, whose norms are over the features of all ranks; use sequence instead";
  return "";
}

void check_groups(const Experiment& experiment, int64_t processes) {
  const auto refuse_if = [&](const std::string& table, const std::string& misfit) {
    if (!misfit.empty()) throw Error(ExitStatus::usage, experiment.file.string() + ": [" + table + "] " + misfit);
  };
  refuse_if("parallel", pipeline_misfit(experiment, processes));
  refuse_if("parallel", shard_group_misfit(experiment, processes));
  refuse_if("parallel", sequence_misfit(experiment, processes));
  refuse_if("train", global_batch_misfit(experiment, processes));
}

}  // namespace wmtp
