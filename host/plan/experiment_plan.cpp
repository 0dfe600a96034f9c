#include "plan/experiment_plan.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "data/records/longest_row.hpp"
#include "data/tokens/id_layout.hpp"
#include "data/tokens/step_count.hpp"
#include "job/input_checks.hpp"
#include "plan/layout.hpp"
#include "plugins/probe.hpp"

namespace wmtp {
namespace {

struct PlannedPipeline {
  PluginNeeds needs;
  bool objective = false;
};

PlannedPipeline pipeline_of(const Experiment& experiment, const Catalog& catalog) {
  return {pipeline_needs(experiment, catalog),
          catalog.describe("pipeline", experiment.pipeline.plugin).role == "objective"};
}

/// "return (linear)", "rank (mlp, score)" -> name and kind.
std::vector<std::pair<std::string, std::string>> value_heads_of(const PluginNeeds& needs) {
  std::vector<std::pair<std::string, std::string>> heads;
  for (const std::string& text : needs.heads) {
    const size_t space = text.find(' ');
    heads.emplace_back(text.substr(0, space), text.substr(space + 2, text.find_first_of(",)") - space - 2));
  }
  return heads;
}

/// The elements of the optimizer's state, with a moving average, of a group's parameters.
int64_t state_elements(const PlannedGroup& group, const OptimizerConfig& optimizer, bool ema) {
  const int64_t all = group.parameters, average = ema ? all : 0;
  if (optimizer.name == "sgd") return average + (optimizer.momentum > 0 ? all : 0);
  int64_t others = all;
  for (const auto& [rows, columns] : group.matrices) others -= rows * columns;
  return average + all + others;
}

/// The strategies to compare.
std::vector<Strategy> strategies(bool has_shard_groups) {
  std::vector<Strategy> all{Strategy::full_shard, Strategy::shard_grad_op, Strategy::shard_optimizer,
                            Strategy::no_shard};
  if (has_shard_groups) all.insert(all.begin() + 1, Strategy::hybrid_shard);
  return all;
}

/// A model whose layout the engine is asked for, and the answer.
struct Asked {
  std::string table;  ///< "model", "full" (trained in full, for comparison), "reference" or "value"
  LayoutQuestion question;
  PlannedLayout layout;
  const FrozenConfig* frozen = nullptr;  ///< of a frozen model
};

class Planner {
 public:
  Planner(const Experiment& experiment, const Catalog& catalog, const std::filesystem::path& cache,
          const PlanStep& plan_step, int64_t hosts)
      : e_(experiment),
        catalog_(catalog),
        cache_(cache),
        plan_step_(plan_step),
        hosts_(hosts),
        pipeline_(pipeline_of(experiment, catalog)) {
    const ParallelConfig& p = e_.parallel;
    const bool are_groups_of_hosts = p.shard_group_size == 0 && hosts > 1 && hosts < p.processes;
    shard_group_size_ = are_groups_of_hosts ? p.processes / hosts : p.shard_group_size;
  }

  ExperimentPlan plan() {
    ask();
    ExperimentPlan plan;
    plan.data = data();
    for (const Asked& asked : asked_) count(asked, plan);
    check_frozen_parameters(e_, plan.trained < plan.parameters);
    for (const Asked& asked : asked_)
      if (asked.question.adapter) add_variants(asked, plan);
    std::stable_partition(plan.variants.begin(), plan.variants.end(),
                          [](const PlannedVariant& variant) { return variant.is_this_one; });
    return plan;
  }

 private:
  void ask() {
    LayoutQuestion policy{e_.model, pipeline_.objective ? "none" : "all", value_heads_of(pipeline_.needs),
                          setting_of(catalog_, "adapter", e_.adapter), e_.optimizer.name};
    policy.train_last = e_.trained_parts.last_blocks;
    policy.train = e_.trained_parts.names;
    for (const OptimizerGroup& group : e_.optimizer.groups) policy.groups.push_back(group.match);
    asked_.push_back({"model", policy, {}});
    policy.train_last = 0;
    policy.train = policy.groups = {};
    if (e_.adapter.plugin != full) {
      policy.adapter = setting_of(catalog_, "adapter", {full, {}});
      asked_.push_back({full, policy, {}});
    }
    for (const auto& [table, config] : frozen_tables(e_)) add_frozen(table, *config);
    Json questions = Json::array();
    for (const Asked& asked : asked_) questions.push_back(asked.question);
    const auto answers = Json::parse(ask_layouts(*asked_.front().question.adapter, questions.dump()));
    for (size_t i = 0; i < asked_.size(); ++i) answers.at(i).get_to(asked_[i].layout);
  }

  void add_frozen(const std::string& table, const FrozenConfig& config) {
    if (first_read(pipeline_.needs, table).empty()) return;
    const Experiment* const stage = e_.stage(table);
    LayoutQuestion question;
    question.model = config.model ? *config.model : stage ? stage->model : e_.model;
    question.heads = table == "value" ? "none" : "first";
    if (table == "value") {
      if (stage) question.value_heads = value_heads_of(pipeline_of(*stage, catalog_).needs);
      if (question.value_heads.empty()) question.value_heads = {{"value", "linear"}};
    }
    asked_.push_back({table, question, {}, &config});
  }

  void count(const Asked& asked, ExperimentPlan& plan) const {
    if (asked.table == full) return;
    int64_t all = 0, trained = 0, of_adapter = 0, state = 0;
    for (const PlannedUnit& unit : asked.layout) {
      all += unit.trained.parameters + unit.frozen.parameters;
      trained += unit.trained.parameters;
      state += state_elements(unit.trained, e_.optimizer, e_.train.ema > 0);
      if (unit.name == "adapter") of_adapter = unit.trained.parameters;
    }
    if (asked.frozen) {
      plan.frozen[asked.table] = all;
      return;
    }
    plan.parameters = all;
    plan.trained = trained;
    plan.training_state_bytes = 4 * (trained + state);
    plan.model_bytes = 4 * (all - of_adapter);
  }

  void add_variants(const Asked& asked, ExperimentPlan& plan) const {
    StepQuestion question;
    const ParallelConfig& p = e_.parallel;
    question.trains_all = asked.table == full;
    question.shard_group_size = shard_group_size_;
    question.ranks = p.processes;
    question.hosts = hosts_;
    question.sequences = e_.train.batch_size;
    question.positions = plan.data.positions;
    question.sequence = p.sequence;
    question.gradient_accumulation = e_.train.gradient_accumulation;
    question.activation_checkpointing = p.activation_checkpointing;
    question.activation_offload = p.activation_offload;
    question.offload = p.cpu_offload;
    question.on_cuda = p.device == "cuda";
    for (const Strategy strategy : strategies(shard_group_size_ > 0)) {
      question.strategy = strategy;
      const bool is_this_one = asked.table == "model" && strategy == p.strategy;
      plan.variants.push_back(
          {asked.question.adapter->description.name, strategy, is_this_one, question, plan_step_(question)});
    }
  }

  PlannedData data() const {
    PlannedData data;
    const int64_t sequences = sequences_per_step(e_.train, data_ranks(e_.parallel, e_.parallel.processes));
    data.positions = e_.train.sequence_length;
    if (e_.data.kind == "records") {
      const auto longest = longest_row(e_, cache_, pipeline_.needs.pairs);
      data.longest_is_known = longest.has_value();
      if (longest) data.positions = batch_positions(*longest, e_.train.sequence_length);
    }
    data.tokens_a_step = sequences * e_.train.sequence_length;
    if (e_.train.steps > 0) data.steps = e_.train.steps;
    if (e_.train.steps == 0 && e_.data.kind == "tokens") data.steps = steps_over_tokens();
    return data;
  }

  /// Unknown if the file cannot be read, which the check of the inputs reports.
  std::optional<int64_t> steps_over_tokens() const {
    int64_t windows = 0;
    try {
      windows =
          id_layout(e_.resolve(e_.data.file), e_.data.dtype, e_.model.vocab_size).count / e_.train.sequence_length;
    } catch (const Error&) {
      return std::nullopt;
    }
    return num_steps(e_.train, windows, data_ranks(e_.parallel, e_.parallel.processes));
  }

  static constexpr const char* full = "full";
  const Experiment& e_;
  const Catalog& catalog_;
  const std::filesystem::path& cache_;
  const PlanStep& plan_step_;
  int64_t hosts_, shard_group_size_;
  PlannedPipeline pipeline_;
  std::vector<Asked> asked_;
};

}  // namespace

ExperimentPlan plan_experiment(const Experiment& experiment, const Catalog& catalog, const std::filesystem::path& cache,
                               const PlanStep& plan_step, int64_t hosts) {
  return Planner(experiment, catalog, cache, plan_step, hosts).plan();
}

std::vector<PlannedVariant> divided_layouts(const Experiment& experiment, const ExperimentPlan& plan,
                                            const PlanStep& plan_step) {
  std::vector<PlannedVariant> divided;
  if (experiment.parallel.sequence > 1) return divided;
  const PlannedVariant& whole = *std::ranges::find_if(plan.variants, [&](const PlannedVariant& variant) {
    return variant.strategy == Strategy::full_shard && variant.adapter == plan.variants.front().adapter;
  });
  const StepQuestion& q = whole.question;
  std::vector<const ModelConfig*> shapes{&experiment.model};
  for (const auto& [table, frozen] : frozen_tables(experiment))
    if (frozen->given && frozen->model) shapes.push_back(&*frozen->model);
  const auto can_divide = [&](int64_t ranks) {
    const auto fits = [&](const ModelConfig* shape) { return misfit_of_heads(*shape, ranks).empty(); };
    return std::ranges::all_of(shapes, fits) && q.ranks / q.hosts % ranks == 0 && q.positions % ranks == 0 &&
           q.positions / ranks >= experiment.model.future_tokens;
  };
  for (int64_t ranks = 2; can_divide(ranks); ranks *= 2) {
    PlannedVariant variant = whole;
    variant.is_this_one = false;
    variant.question.sequence = ranks;
    variant.question.gradient_accumulation *= ranks;
    variant.step = plan_step(variant.question);
    divided.push_back(std::move(variant));
  }
  return divided;
}

}  // namespace wmtp
