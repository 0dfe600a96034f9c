#include "run/assembly.hpp"

#include "base/error.hpp"
#include "checkpoint/model_files.hpp"
#include "data/sources.hpp"
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

}  // namespace

Identity agree_on_identity(Session& session, const Experiment& experiment) {
  Identity identity;
  identity.pipeline = session.catalog().describe("pipeline", experiment.pipeline.plugin);
  identity.adapter = session.catalog().describe("adapter", experiment.adapter.plugin);
  identity.config_hash = experiment_hash(experiment, session.catalog(), session.job().database);
  Peers& peers = session.peers();
  peers.agree("the experiment's hash", identity.config_hash, ExitStatus::usage);
  for (const PluginDescription* plugin : {&identity.pipeline, &identity.adapter})
    peers.agree("the sha256 of " + plugin->kind + " '" + plugin->name + "'", plugin->sha256, ExitStatus::plugin);
  return identity;
}

Assembly::Assembly(Session& session, const Experiment& experiment, const Identity& identity,
                   const std::function<void(const std::string&)>& say)
    : pipeline_(open_pipeline(identity.pipeline, experiment.pipeline.options, experiment.reference.given)),
      adapter_(create_adapter(identity.adapter, experiment.adapter.options)),
      data_(open_data(session, experiment, say)),
      model_(build_policy(session, experiment)) {
  BatchRequest request;
  request.heads = model_->num_heads();
  request.prompts = pipeline_.needs.prompts;
  request.pairs = pipeline_.needs.pairs;
  request.device = session.device();
  training_source_ = training_batches(experiment, data_, request, session.size());
  validation_source_ = validation_batches(experiment, data_, request, session.size());
  const TrainConfig& train = experiment.train;
  const int64_t validation_sequences =
      validation_source_ ? std::min(validation_source_->count(),
                                    experiment.validation.batches * sequences_per_step(train, session.size()))
                         : 0;
  trainer_ =
      std::make_unique<Trainer>(experiment, num_steps(train, training_source_->count(), session.size()), *model_,
                                pipeline_, build_reference(session, experiment), *training_source_,
                                validation_source_.get(), validation_sequences, session.channels(), session.device());
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

std::unique_ptr<Reference> Assembly::build_reference(Session& session, const Experiment& experiment) {
  if (!pipeline_.reads_reference) return nullptr;
  const FrozenConfig& config = experiment.reference;
  std::filesystem::path weights;
  if (const Experiment* trained = experiment.stage("reference")) {
    const Experiment& stage = *trained;
    weights = finished_model(experiment_hash(stage, session.catalog(), session.job().database), session.job().database);
    if (weights.empty()) throw Error(ExitStatus::data, "reference: stage '" + stage.name + "' has no finished run");
  } else {
    weights = resolve_weights(config.weights, experiment, session.job().database);
  }
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
