#include "core/plugins/trials.hpp"

#include "base/error.hpp"
#include "core/plugins/probe.hpp"

namespace wmtp {

std::vector<Trial> trials_of(const std::string& role) {
  const Trial again{"again", "the same training twice gives the same bits"};
  const Trial speed{"speed", "what it costs"};
  if (role == "adapter")
    return {{"trains", "a training with it goes through, and its gradients are finite"},
            {"merged", "weights with the adapter folded in give the same losses as the adapter beside them"},
            again,
            speed};
  const Trial trains =
      role == "objective"
          ? Trial{"trains", "a training with it goes through: a finite scalar that depends on its heads"}
          : Trial{"trains", "a training with it goes through: weights of the right shape, finite, not negative"};
  return {trains,
          {"no_targets", "a batch without a single target is no mistake"},
          {"extremes", "losses of 0 and of thousands give no NaN"},
          again,
          {"resumes", "a new instance with the saved state goes on to the same bits"},
          speed};
}

TrialResult hold(const Trial& trial, const PluginSetting& plugin) {
  try {
    return {trial, true, try_in_child(trial.name, plugin)};
  } catch (const Error& error) {
    return {trial, false, error.what()};
  }
}

}  // namespace wmtp
