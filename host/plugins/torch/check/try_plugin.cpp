#include "plugins/torch/check/try_plugin.hpp"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/time_use.hpp"
#include "checkpoint/torch/model_files.hpp"
#include "comm/torch/cuda_backend.hpp"
#include "io/scratch_folder.hpp"
#include "plugins/description_json.hpp"
#include "plugins/torch/check/small_training.hpp"
#include "plugins/torch/loader.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int steps = 4;

[[noreturn]] void fail(const std::string& what) { throw Error(ExitStatus::plugin, what); }

/// The weighting inside a wrapper, and the one with which an adapter or an auxiliary loss is trained: weights that
/// differ between tokens, and a trained value head, so that a step has a gradient even if the adapter trains nothing.
class Companion final : public Weighting {
 public:
  Needs needs() const override { return {.when = When::before, .heads = {{"companion", "linear"}}}; }
  Weights weigh(BatchStep& step) override { return Weights::by_source(step.uniform(0)); }
  Tensor value_loss(ValueStep& step) override {
    const Tensor values = step.leaf(ValueSignal::of_policy("companion"));
    return ((values - 1).square() * step.valid()).sum() / step.answer_tokens().clamp_min(1);
  }
};

/// The call's result; adds its time to `seconds`.
template <class Call>
auto timed(double& seconds, Call call) {
  const auto start = Clock::now();
  auto result = call();
  seconds += seconds_since(start);
  return result;
}

/// Measures the total time of the pipeline's calls.
class TimedWeighting final : public Weighting {
 public:
  TimedWeighting(std::unique_ptr<Weighting> inner, double& seconds) : inner_(std::move(inner)), seconds_(seconds) {}
  Needs needs() const override { return inner_->needs(); }
  Weights weigh(TokenStep& step) override { return weighed(step); }
  Weights weigh(HeadStep& step) override { return weighed(step); }
  Weights weigh(BatchStep& step) override { return weighed(step); }
  Tensor value_loss(ValueStep& step) override { return inner_->value_loss(step); }

 private:
  template <class AnyStep>
  Weights weighed(AnyStep& step) {
    return timed(seconds_, [&] { return inner_->weigh(step); });
  }

  std::unique_ptr<Weighting> inner_;
  double& seconds_;
};

class TimedObjective final : public Objective {
 public:
  TimedObjective(std::unique_ptr<Objective> inner, double& seconds) : inner_(std::move(inner)), seconds_(seconds) {}
  Needs needs() const override { return inner_->needs(); }
  Tensor loss(ValueStep& step) override {
    return timed(seconds_, [&] { return inner_->loss(step); });
  }

 private:
  std::unique_ptr<Objective> inner_;
  double& seconds_;
};

class TimedAuxiliaryLoss final : public AuxiliaryLoss {
 public:
  TimedAuxiliaryLoss(std::unique_ptr<AuxiliaryLoss> inner, double& seconds)
      : inner_(std::move(inner)), seconds_(seconds) {}
  LogitsNeeds needs() const override { return inner_->needs(); }
  bool applies(int64_t head) const override { return inner_->applies(head); }
  Tensor loss(LogitsStep& step) override {
    return timed(seconds_, [&] { return inner_->loss(step); });
  }

 private:
  std::unique_ptr<AuxiliaryLoss> inner_;
  double& seconds_;
};

/// The plugin under test; every training creates its own instance.
class Candidate {
 public:
  Candidate(PluginSetting plugin, const at::Device& device) : plugin_(std::move(plugin)), device_(device) {
    if (plugin_.description.role == PluginRole::adapter)
      adapter_ = create_adapter(plugin_.description, plugin_.options);
  }

  SmallParts parts() const {
    SmallParts parts;
    parts.device = device_;
    parts.name = plugin_.description.name;
    const PluginRole role = plugin_.description.role;
    if (role == PluginRole::adapter) {
      parts.adapter = adapter_.get();
      parts.weighting = [] { return std::make_unique<Companion>(); };
    } else if (role == PluginRole::auxiliary_loss) {
      parts.weighting = [] { return std::make_unique<Companion>(); };
      parts.auxiliary_loss = [this] { return create_auxiliary_loss(plugin_.description, plugin_.options); };
    } else if (role == PluginRole::objective) {
      parts.objective = [this] { return create_objective(plugin_.description, plugin_.options); };
    } else if (role == PluginRole::wrapper) {
      parts.weighting = [this] { return create_wrapper(plugin_, std::make_unique<Companion>()); };
    } else {
      parts.weighting = [this] { return create_weighting(plugin_.description, plugin_.options); };
    }
    return parts;
  }
  bool is_adapter() const { return adapter_ != nullptr; }
  const Adapter& adapter() const { return *adapter_; }

 private:
  PluginSetting plugin_;
  at::Device device_;
  std::unique_ptr<Adapter> adapter_;
};

std::string trains(const Candidate& candidate) {
  const std::vector<double> losses = SmallTraining(candidate.parts()).losses(steps);
  return printed("%d steps, loss %.4f to %.4f", steps, losses.front(), losses.back());
}

/// Relative; the device sums in a different order than the CPU.
constexpr double device_tolerance = 1e-4;

std::string same_losses(const Candidate& candidate) {
  const std::vector<double> losses = SmallTraining(candidate.parts()).losses(steps);
  SmallParts parts = candidate.parts();
  parts.device = at::kCPU;
  const std::vector<double> on_cpu = SmallTraining(parts).losses(steps);
  double most = 0;
  for (int i = 0; i < steps; ++i) {
    const double loss = losses[size_t(i)], wanted = on_cpu[size_t(i)];
    const double off = std::fabs(loss - wanted) / std::max(1.0, std::fabs(wanted));
    if (!(off <= device_tolerance)) fail(printed("step %d: loss %.7f, and %.7f on the CPU", i + 1, loss, wanted));
    most = std::max(most, off);
  }
  return printed("%d steps, within %.0e", steps, most);
}

std::string no_targets(const Candidate& candidate) {
  SmallParts parts = candidate.parts();
  parts.targets = false;
  SmallTraining(parts).losses(2);
  return "2 steps of prompts, single tokens and padding";
}

std::string extremes(const Candidate& candidate) {
  SmallParts parts = candidate.parts();
  parts.sharpness = 1e5;
  parts.value_scale = 1e4;
  SmallTraining(parts).losses(1);
  return "1 step with scores in the thousands";
}

std::string again(const Candidate& candidate) {
  const std::vector<double> first = SmallTraining(candidate.parts()).losses(steps);
  const std::vector<double> second = SmallTraining(candidate.parts()).losses(steps);
  for (int i = 0; i < steps; ++i)
    if (first[size_t(i)] != second[size_t(i)])
      fail(
          printed("step %d: loss %.9g, and %.9g the second time; draw random numbers with Step::uniform only, and keep "
                  "no state outside the instance",
                  i + 1, first[size_t(i)], second[size_t(i)]));
  return printed("%d steps, bit-identical", steps);
}

std::string resumes(const Candidate& candidate) {
  const std::vector<double> whole = SmallTraining(candidate.parts()).losses(steps);
  SmallTraining interrupted(candidate.parts());
  interrupted.losses(steps / 2);
  interrupted.replace_plugin();
  const std::vector<double> rest = interrupted.losses(steps - steps / 2);
  for (size_t i = 0; i < rest.size(); ++i)
    if (rest[i] != whole[size_t(steps / 2) + i])
      fail(
          printed("step %d: loss %.9g without interruption, %.9g after resuming; keep what outlives a call in "
                  "Step::state",
                  steps / 2 + int(i) + 1, whole[size_t(steps / 2) + i], rest[i]));
  const size_t kept = interrupted.trainer().state().pipeline_state.size();
  return printed("%zu tensor%s of state", kept, kept == 1 ? "" : "s");
}

/// Relative; covers the fp32 rounding of products and of sums of a few dozen terms.
constexpr double merged_tolerance = 1e-5;

std::string merged(const Candidate& candidate) {
  SmallTraining adapted(candidate.parts());
  adapted.losses(steps);
  const ScratchFolder folder;
  save_model(folder.path() / "model", steps, "", adapted.model(), &candidate.adapter(), {});
  SmallParts parts = candidate.parts();
  parts.adapter = nullptr;
  SmallTraining plain(std::move(parts));
  load_model(folder.path() / "model", plain.model());
  const double one = adapted.trainer().validate().at("valid/loss");
  const double other = plain.trainer().validate().at("valid/loss");
  if (!(std::fabs(one - other) <= merged_tolerance * std::fabs(one)))
    fail(printed("after %d steps the loss is %.7f with the adapter, %.7f with the weights from merged()", steps, one,
                 other));
  return printed("losses %.7f and %.7f", one, other);
}

constexpr int64_t timed_sequence = 512;

std::string speed(const Candidate& candidate) {
  SmallParts parts = candidate.parts();
  parts.sequence_length = timed_sequence;
  double seconds = 0;
  if (const auto make = parts.auxiliary_loss)
    parts.auxiliary_loss = [make, &seconds] { return std::make_unique<TimedAuxiliaryLoss>(make(), seconds); };
  else if (const auto make = parts.weighting; make && !candidate.is_adapter())
    parts.weighting = [make, &seconds] { return std::make_unique<TimedWeighting>(make(), seconds); };
  if (const auto make = parts.objective)
    parts.objective = [make, &seconds] { return std::make_unique<TimedObjective>(make(), seconds); };
  SmallTraining training(std::move(parts));
  training.losses(1);
  seconds = 0;
  const auto start = Clock::now();
  training.losses(steps);
  const double tokens = double(steps) * double(training.tokens_per_step()), whole = seconds_since(start);
  if (!candidate.is_adapter()) return printed("%.0f ns per token", seconds / tokens * 1e9);
  SmallParts plain = candidate.parts();
  plain.sequence_length = timed_sequence;
  plain.adapter = nullptr;
  SmallTraining without(std::move(plain));
  without.losses(1);
  const auto begin = Clock::now();
  without.losses(steps);
  return printed("%.2f times a step of full training, at 32 dimensions", whole / seconds_since(begin));
}

at::Device device_named(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  static const at::Device device = first_cuda_device();
  return device;
}

}  // namespace

std::string try_plugin(const std::string& request) {
  static const std::map<std::string, std::string (*)(const Candidate&)> trials{
      {"trains", trains}, {"same_losses", same_losses}, {"no_targets", no_targets}, {"extremes", extremes},
      {"again", again},   {"resumes", resumes},         {"merged", merged},         {"speed", speed}};
  const auto json = Json::parse(request);
  const Candidate candidate(json.at("plugin").get<PluginSetting>(), device_named(json.at("device")));
  return Json{{"report", trials.at(json.at("trial"))(candidate)}}.dump();
}

}  // namespace wmtp
