#include "run/assembly.hpp"

#include "base/error.hpp"
#include "checkpoint/model_files.hpp"
#include "data/step_count.hpp"
#include "plugin/loader.hpp"
#include "run/identity.hpp"

namespace wmtp {
namespace {

GroupOptions group_options(Strategy strategy, Precision precision, at::Device device) {
  return {strategy, precision == Precision::bf16 ? at::kBFloat16 : at::kFloat, device};
}

Prepared open_data(Session& session, const Experiment& experiment, const std::function<void(const std::string&)>& say) {
  if (session.is_rank0()) prepare_data(experiment, session.cache_folder(), say);
  session.peers().publish("preparing the data", "prepared");
  return open_prepared(experiment, session.cache_folder(), session.size());
}

PipelineInUse open_pipeline(const Identity& identity, const Experiment& experiment) {
  std::optional<PluginSetting> inner;
  if (identity.inner) inner = PluginSetting{*identity.inner, experiment.inner->options};
  return open_pipeline({identity.pipeline, experiment.pipeline.options}, inner ? &*inner : nullptr,
                       experiment.reference.given);
}

}  // namespace

std::vector<std::pair<std::string, const PluginDescription*>> Identity::plugins() const {
  std::vector<std::pair<std::string, const PluginDescription*>> all{{"pipeline", &pipeline}};
  if (inner) all.emplace_back("inner", &*inner);
  all.emplace_back("adapter", &adapter);
  return all;
}

Identity agree_on_identity(Session& session, const Experiment& experiment, const Stages& stages) {
  Identity identity;
  identity.pipeline = session.catalog().describe("pipeline", experiment.pipeline.plugin);
  if (experiment.inner) identity.inner = session.catalog().describe("pipeline", experiment.inner->plugin);
  identity.adapter = session.catalog().describe("adapter", experiment.adapter.plugin);
  identity.config_hash = experiment_hash(experiment, stages, session.catalog(), session.job().database);
  Peers& peers = session.peers();
  peers.agree("the experiment's hash", identity.config_hash, ExitStatus::usage);
  for (const auto& [part, plugin] : identity.plugins())
    peers.agree("the sha256 of " + plugin->kind + " '" + plugin->name + "'", plugin->sha256, ExitStatus::plugin);
  return identity;
}

Assembly::Assembly(Session& session, const Experiment& experiment, const Identity& identity, const Stages& stages,
                   const std::function<void(const std::string&)>& say)
    : pipeline_(open_pipeline(identity, experiment)),
      adapter_(create_adapter(identity.adapter, experiment.adapter.options)),
      data_(open_data(session, experiment, say)),
      model_(build_policy(session, experiment)) {
  const auto source = [&](const TokenWindows& windows, const std::string& order) {
    BatchRequest request;
    request.heads = model_->num_heads();
    request.prompts = pipeline_.needs.prompts;
    request.pairs = pipeline_.needs.pairs;
    request.device = session.device();
    return window_batches(windows, WindowOrder(experiment.seed, windows.count(), order), experiment.train.batch_size,
                          experiment.train.sequence_length, request);
  };
  training_source_ = source(*data_.train, experiment.data.kind == "random" ? "sequential" : experiment.data.order);
  int64_t validation_windows = 0;
  if (data_.validation) {
    validation_source_ = source(*data_.validation, "sequential");
    validation_windows =
        std::min(data_.validation->count(), experiment.validation.batches * experiment.train.batch_size *
                                                session.size() * experiment.train.gradient_accumulation);
  }
  trainer_ =
      std::make_unique<Trainer>(experiment, num_steps(experiment.train, data_.train->count(), session.size()), *model_,
                                pipeline_, build_reference(session, experiment, stages), *training_source_,
                                validation_source_.get(), validation_windows, session.channels(), session.device());
}

std::unique_ptr<ShardedModel> Assembly::build_policy(Session& session, const Experiment& experiment) {
  ShardedModelRequest request;
  request.layout.model = &experiment.model;
  request.layout.adapter = adapter_.get();
  request.layout.value_heads = pipeline_.needs.heads;
  request.layout.decay_norms = experiment.optimizer.decay_norms;
  request.options = group_options(experiment.parallel.strategy, experiment.parallel.precision, session.device());
  request.positions = experiment.train.sequence_length;
  auto model = std::make_unique<ShardedModel>(request, session.channels());
  model->initialize(experiment.seed);
  if (!experiment.model.weights.empty())
    load_model(resolve_weights(experiment.model.weights, experiment, session.job().database), *model);
  return model;
}

std::unique_ptr<Reference> Assembly::build_reference(Session& session, const Experiment& experiment,
                                                     const Stages& stages) {
  if (!pipeline_.reads_reference) return nullptr;
  const FrozenConfig& config = experiment.reference;
  const auto stage = stages.find("reference");
  const std::filesystem::path weights =
      stage != stages.end() ? stage->second.model : resolve_weights(config.weights, experiment, session.job().database);
  ModelConfig shape = config.model                    ? *config.model
                      : experiment.stage("reference") ? experiment.stage("reference")->model
                                                      : model_config_of(weights, experiment.model);
  if (shape.vocab_size != experiment.model.vocab_size)
    throw Error(ExitStatus::data, "reference " + weights.string() + ": its vocabulary has " +
                                      std::to_string(shape.vocab_size) + " ids, the policy's " +
                                      std::to_string(experiment.model.vocab_size) + "; both must share a tokenizer");
  ShardedModelRequest request;
  request.layout.model = &shape;
  request.layout.heads = Heads::first;
  request.options = group_options(config.strategy.value_or(experiment.parallel.strategy),
                                  config.precision.value_or(experiment.parallel.precision), session.device());
  request.positions = experiment.train.sequence_length;
  auto model = std::make_unique<ShardedModel>(request, session.channels());
  load_model(weights, *model);
  return std::make_unique<Reference>(std::move(model), chunk_tokens(shape.vocab_size));
}

}  // namespace wmtp
