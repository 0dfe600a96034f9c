// Refuses keys that nothing reads in this experiment: with them, runs that are the same look like different ones.
//
// A key may be given with its default, as in the resolved text of a run, which states all keys.
#include "base/text.hpp"
#include "experiment/load/rules.hpp"

namespace wmtp {
namespace {

class UnusedKeys : RuleChecker {
 public:
  UnusedKeys(const BoundExperiment& bound, Diagnostics& diagnostics) : RuleChecker(bound, diagnostics) {}

  void all(const PluginNeeds* needs) {
    optimizer();
    if (needs) {
      value_heads(*needs);
      token_weights(*needs);
      pairs(*needs);
    }
    schedule();
    guard();
    order();
    samples();
    prompt_tokens();
  }

 private:
  void optimizer() {
    if (!bound_.all_valid({"optimizer", "optimizer.name"})) return;
    const OptimizerTraits& optimizer = traits_of(e_.optimizer.kind);
    const auto refuse_if = [&](bool lacks, const std::string& key) {
      if (lacks && bound_.has("optimizer." + key))
        refuse_key("optimizer." + key, key + " does not apply to the optimizer " + quote(optimizer.name), "remove it");
    };
    refuse_if(!optimizer.momentum, "momentum");
    refuse_if(!optimizer.has_betas, "betas");
    refuse_if(!optimizer.has_eps, "eps");
  }

  void value_heads(const PluginNeeds& needs) {
    if (!bound_.all_valid({"optimizer", "optimizer.lr"})) return;
    if (needs.heads.empty() && e_.optimizer.value_head_lr != e_.optimizer.lr)
      unused("optimizer.value_head_lr", title() + " trains no value head", "remove it");
  }

  /// An objective has none.
  void token_weights(const PluginNeeds& needs) {
    if (needs.when) return;
    const std::string reason = title() + " weighs no tokens";
    if (e_.train.normalize != TrainConfig().normalize) unused("train.normalize", reason, "remove it");
    if (e_.log.samples != 0 && e_.log.samples != LogConfig().samples) unused("log.samples", reason, "remove it");
  }

  void pairs(const PluginNeeds& needs) {
    if (needs.pairs) return;
    const std::string reason = title() + " does not train on pairs of answers";
    const DataConfig& data = e_.data;
    if (data.max_pairs_per_problem != DataConfig().max_pairs_per_problem)
      unused("data.max_pairs_per_problem", reason, "remove it");
    if (data.length_bins != DataConfig().length_bins) unused("data.length_bins", reason, "remove it");
  }

  void schedule() {
    if (!bound_.all_valid({"schedule", "schedule.name"})) return;
    const auto only_for = [&](Schedule wanted, const std::string& key) {
      if (e_.schedule.name != wanted && bound_.has("schedule." + key))
        refuse_key("schedule." + key,
                   key + " applies only to the schedule " + quote(to_string(wanted)) + ", found " +
                       quote(to_string(e_.schedule.name)),
                   "remove it, or set name = " + quote(to_string(wanted)));
    };
    only_for(Schedule::wsd, "stable_steps");
    only_for(Schedule::wsd, "decay");
    only_for(Schedule::cosine, "cycles");
    if (e_.schedule.name == Schedule::constant && e_.schedule.min_lr_ratio != ScheduleConfig().min_lr_ratio)
      unused("schedule.min_lr_ratio", "the schedule \"constant\" does not fall",
             "remove it, or set name = \"linear\", \"cosine\" or \"wsd\"");
  }

  void guard() {
    const GuardConfig &guard = e_.guard, usual;
    if (guard.loss_spike == 0 && guard.spike_floor != usual.spike_floor)
      unused("guard.spike_floor", "loss_spike is not set", "set loss_spike, or remove it");
    if (guard.loss_spike == 0 && guard.loss_ratio == 0 && guard.window != usual.window)
      unused("guard.window", "neither loss_spike nor loss_ratio is set", "set one of them, or remove it");
  }

  void order() {
    if (!bound_.all_valid({"data.kind"})) return;
    if (e_.data.kind == DataKind::random && e_.data.order != DataConfig().order)
      unused("data.order", "random data have no order", "remove it");
  }

  void samples() {
    if (!bound_.all_valid({"validation"})) return;
    const int64_t number = e_.log.samples;
    if (!e_.validation.given && number != 0 && number != LogConfig().samples)
      unused("log.samples", "sequences are logged at validations, and there is no [validation]",
             "add [validation], or remove it");
  }

  void prompt_tokens() {
    if (e_.log.prompts.empty() && e_.log.prompt_tokens != LogConfig().prompt_tokens)
      unused("log.prompt_tokens", "there are no prompts", "set prompts, or remove it");
  }

  void unused(const std::string& key, const std::string& reason, const std::string& hint) {
    if (bound_.has(key) && bound_.all_valid({key.c_str()}))
      refuse_key(key, key.substr(key.rfind('.') + 1) + " has no effect: " + reason, hint);
  }
};

}  // namespace

void check_unused_keys(const BoundExperiment& bound, const PluginNeeds* needs, Diagnostics& diagnostics) {
  UnusedKeys(bound, diagnostics).all(needs);
}

}  // namespace wmtp
