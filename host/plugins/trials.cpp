#include "plugins/trials.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_text.hpp"
#include "plugins/probe.hpp"

namespace wmtp {

namespace {

std::vector<Trial> trials_on_any_device(PluginRole role) {
  const Trial again{"again", "repeating the training gives bitwise identical results"};
  const Trial speed{"speed", "step time"};
  if (role == PluginRole::adapter)
    return {{"trains", "training finishes with finite gradients"},
            {"merged", "merged weights give the same losses as base weights with the adapter"},
            again,
            speed};
  const char* const promise =
      role == PluginRole::objective ? "training finishes; the objective is a finite scalar that depends on its heads"
      : role == PluginRole::auxiliary_loss
          ? "training finishes; the loss is a finite number per token that depends on its logits"
          : "training finishes; weights have the right shape, are finite and not negative";
  const Trial trains{"trains", promise};
  return {trains,
          {"no_targets", "a batch without targets is accepted"},
          {"extremes", "losses of 0 and of thousands give no NaN"},
          again,
          {"resumes", "a new instance resumed from the saved state gives bitwise identical results"},
          speed};
}

}  // namespace

std::vector<Trial> trials_for_role(PluginRole role, const std::string& device) {
  std::vector<Trial> trials = trials_on_any_device(role);
  if (device == "cuda") trials.insert(trials.begin() + 1, {"same_losses", "losses on the device equal the CPU's"});
  return trials;
}

std::vector<TrialResult> run_trials(const PluginSetting& plugin, const std::string& device) {
  std::vector<TrialResult> results;
  const std::vector<Trial> trials = trials_for_role(plugin.description.role, device);
  const Json replies = request_trials(plugin, device, trials.size());
  for (size_t i = 0; i < trials.size(); ++i)
    results.push_back({trials[i], replies.at(i).at("passed"), replies.at(i).at("message")});
  return results;
}

std::string serve_trials(const std::string& request, const std::function<int(const std::string&)>& serve_trial) {
  Json trial_request = Json::parse(request), replies = Json::array();
  const Json description = trial_request.at("plugin").at("description");
  const std::chrono::milliseconds limit(trial_request.at("limit_ms").get<int64_t>());
  for (const Trial& trial : trials_for_role(description.at("role"), trial_request.at("device"))) {
    trial_request["trial"] = trial.name;
    try {
      const Json report =
          run_trial_in_fork(description.at("name"), limit, [&] { return serve_trial(trial_request.dump()); });
      replies.push_back({{"passed", true}, {"message", report.at("report")}});
    } catch (const Error& error) {
      replies.push_back({{"passed", false}, {"message", error.what()}});
    }
  }
  return dumped(replies);
}

}  // namespace wmtp
