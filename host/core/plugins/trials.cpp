#include "core/plugins/trials.hpp"

#include "base/error.hpp"
#include "core/plugins/probe.hpp"

namespace wmtp {

namespace {

std::vector<Trial> trials_on_any_device(const std::string& role) {
  const Trial again{"again", "repeating the training gives bitwise identical results"};
  const Trial speed{"speed", "step time"};
  if (role == "adapter")
    return {{"trains", "training finishes with finite gradients"},
            {"merged", "merged weights give the same losses as base weights with the adapter"},
            again,
            speed};
  const Trial trains =
      role == "objective"
          ? Trial{"trains", "training finishes; the objective is a finite scalar that depends on its heads"}
          : Trial{"trains", "training finishes; weights have the right shape, are finite and not negative"};
  return {trains,
          {"no_targets", "a batch without targets is accepted"},
          {"extremes", "losses of 0 and of thousands give no NaN"},
          again,
          {"resumes", "a new instance resumed from the saved state gives bitwise identical results"},
          speed};
}

}  // namespace

std::vector<Trial> trials_of(const std::string& role, const std::string& device) {
  std::vector<Trial> trials = trials_on_any_device(role);
  if (device == "cuda") trials.insert(trials.begin() + 1, {"same_losses", "losses on the device equal the CPU's"});
  return trials;
}

TrialResult run_trial(const Trial& trial, const PluginSetting& plugin, const std::string& device) {
  try {
    return {trial, true, try_in_child(trial.name, plugin, device)};
  } catch (const Error& error) {
    return {trial, false, error.what()};
  }
}

}  // namespace wmtp
