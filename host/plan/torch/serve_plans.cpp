#include "plan/torch/serve_plans.hpp"

#include <unistd.h>

#include <iostream>
#include <optional>
#include <string>

#include "base/json_text.hpp"
#include "base/log.hpp"
#include "experiment/load/load.hpp"
#include "job/job_request.hpp"
#include "memory/allocator.hpp"
#include "memory/caught_error.hpp"
#include "memory/meta_device.hpp"
#include "plan/torch/meta_rows.hpp"
#include "plan/torch/planned_step.hpp"
#include "plugins/torch/loader.hpp"
#include "process/socket_child.hpp"
#include "train/session.hpp"

namespace wmtp {
namespace {

/// Weighs every token alike.
class UniformWeighting final : public Weighting {
 public:
  explicit UniformWeighting(Needs needs) : needs_(std::move(needs)) {}
  Needs needs() const override { return needs_; }
  Weights weigh(TokenStep& step) override { return ones(step); }
  Weights weigh(HeadStep& step) override { return ones(step); }
  Weights weigh(BatchStep& step) override { return ones(step); }
  Tensor value_loss(ValueStep& step) override { return sum_of_values(needs_, step); }

  static Tensor sum_of_values(const Needs& needs, ValueStep& step) {
    Tensor sum;
    for (const ValueHead& head : needs.heads) {
      const Tensor head_sum = step.leaf(ValueSignal::of_policy(head.name)).sum();
      sum = sum.defined() ? sum + head_sum : head_sum;
    }
    return sum;
  }

 private:
  static Weights ones(TokenStep& step) { return Weights::by_source(step.valid().to(at::kFloat)); }
  Needs needs_;
};

class ValueSumObjective final : public Objective {
 public:
  explicit ValueSumObjective(Needs needs) : needs_(std::move(needs)) {}
  Needs needs() const override { return needs_; }
  Tensor loss(ValueStep& step) override { return UniformWeighting::sum_of_values(needs_, step); }

 private:
  Needs needs_;
};

class LogSumLoss final : public AuxiliaryLoss {
 public:
  Tensor loss(LogitsStep& step) override { return step.logits().logsumexp(1); }
};

/// A pipeline in place of one whose plugin reads values, which a planned step does not have: it is called at the same
/// moments and gets the same signals, but what the plugin itself would allocate is not planned.
ActivePipeline substitute_pipeline(const ActivePipeline& pipeline) {
  ActivePipeline other;
  other.name = pipeline.name;
  other.needs = pipeline.needs;
  other.frozen = pipeline.frozen;
  if (pipeline.objective)
    other.objective = std::make_unique<ValueSumObjective>(pipeline.needs);
  else
    other.weighting = std::make_unique<UniformWeighting>(pipeline.needs);
  if (pipeline.auxiliary_loss) {
    const ActiveAuxiliaryLoss& loss = *pipeline.auxiliary_loss;
    other.auxiliary_loss = ActiveAuxiliaryLoss{loss.name, std::make_unique<LogSumLoss>(), loss.needs, loss.heads};
  }
  return other;
}

class Plans {
 public:
  explicit Plans(const std::vector<std::filesystem::path>& plugin_folders) : catalog_(plugin_folders) {}

  Json reply(const std::string& line) {
    try {
      const Json asked = Json::parse(line);
      turn_to(asked.at("file").get<std::string>());
      const auto request = asked.at("request").get<StepRequest>();
      share_cores(int(request.ranks / request.hosts));
      install_meta_device(request.on_cuda ? at::kCUDA : at::kCPU);
      return {{"step", planned(request)}};
    } catch (...) {
      const Error error = caught_error();
      return {{"error", error.what()}, {"status", error.status()}};
    }
  }

 private:
  /// What is known of the steps of another file is forgotten.
  void turn_to(const std::string& file) {
    if (file == file_) return;
    file_.clear();
    experiment_ = load_experiment(load_request(catalog_, file, {}));
    known_.clear();
    reads_values_ = false;
    file_ = file;
  }

  PlannedStep planned(const StepRequest& request) {
    const OpenParts open = [this](const Experiment& experiment) { return parts_of(experiment); };
    try {
      if (!reads_values_) return plan_step(experiment_, request, open, known_);
    } catch (const Error& error) {
      if (error.status() != ExitStatus::plugin) throw;
      reads_values_ = true;
      known_.clear();
      log_warning(
          std::string("the plan leaves out what the pipeline itself allocates, because it reads values, which a "
                      "plan does not have: ") +
          error.what());
    }
    const OpenParts open_substitute = [&](const Experiment& experiment) {
      StepParts parts = open(experiment);
      return StepParts{substitute_pipeline(parts.pipeline), std::move(parts.adapter)};
    };
    return plan_step(experiment_, request, open_substitute, known_);
  }

  StepParts parts_of(const Experiment& experiment) const {
    std::optional<PluginSetting> inner;
    if (experiment.inner) inner = plugin_setting(catalog_, PluginKind::pipeline, *experiment.inner);
    const PluginSetting adapter = plugin_setting(catalog_, PluginKind::adapter, experiment.adapter);
    ActivePipeline pipeline = open_pipeline(plugin_setting(catalog_, PluginKind::pipeline, experiment.pipeline),
                                            inner ? &*inner : nullptr, experiment);
    if (experiment.auxiliary_loss)
      add_auxiliary_loss(plugin_setting(catalog_, PluginKind::auxiliary_loss, *experiment.auxiliary_loss), experiment,
                         pipeline);
    return {std::move(pipeline), create_adapter(adapter.description, adapter.options)};
  }

  Catalog catalog_;
  std::string file_;  ///< of the experiment; "": there is none yet
  Experiment experiment_;
  KnownSteps known_;
  bool reads_values_ = false;  ///< the pipeline
};

}  // namespace

void serve_plans(const std::vector<std::filesystem::path>& plugin_folders) {
  install_allocator();
  static MetaRows rows;
  kernels::set_device_rows(&rows);
  Plans plans(plugin_folders);
  for (std::string line; std::getline(std::cin, line);)
    if (!send_line(STDIN_FILENO, dumped(plans.reply(line)))) return;
}

}  // namespace wmtp
