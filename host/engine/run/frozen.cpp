#include "engine/run/frozen.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "core/formats/hf/params_file.hpp"
#include "core/job/identity.hpp"
#include "core/job/input_checks.hpp"
#include "engine/checkpoint/model_files.hpp"
#include "engine/run/model_options.hpp"

namespace wmtp {
namespace {

/// All of a shape that the numbers follow from; another head count fits the same tensors.
std::string text_of(const ModelConfig& shape) {
  std::string text =
      printed("%lld x %lld, %lld and %lld heads, %lld wide, rope_theta %.17g, norm_eps %.17g",
              static_cast<long long>(shape.layers - shape.future_tokens), static_cast<long long>(shape.dim),
              static_cast<long long>(shape.heads), static_cast<long long>(shape.kv_heads),
              static_cast<long long>(shape.ffn_dim), shape.rope_theta, shape.norm_eps);
  if (const auto& rope = shape.rope_scaling)
    text += printed(", rope_scaling %s %.17g %.17g %.17g %lld", rope->rope_type.c_str(), rope->factor,
                    rope->low_freq_factor, rope->high_freq_factor,
                    static_cast<long long>(rope->original_max_position_embeddings));
  return text;
}

/// One of the two tables.
struct Source {
  std::string table;
  const FrozenConfig& config;
  const std::set<std::string>& wanted;
  bool reads_scores;
};

class Frozen {
 public:
  Frozen(Session& session, const Experiment& experiment, const Stages& stages, const Source& source)
      : session_(session),
        experiment_(experiment),
        source_(source),
        weights_(first_weights(session, experiment, stages, source.table, source.config.weights)),
        shape_(shape()) {
    check_frozen_shape(source.table, weights_, shape_, experiment.model, source.reads_scores);
    if (!reads_values()) return;
    heads_ = value_heads_of(weights_);
    if (heads_.front().meaning.empty() && session.is_rank0() && !source.reads_scores)
      log_warning("[value] " + weights_.string() + ": its " + params_file_name +
                  " does not say whether its head learned values or scores; it is taken for one that learned values");
  }

  /// Loaded when this is first called. [all ranks, collective]
  std::shared_ptr<FrozenModel> model() {
    if (!model_) model_ = build();
    return model_;
  }

  /// What the numbers follow from: weights, shape, data and which part of it, window length, precision and device.
  FrozenCache::Stores stores(const Prepared& data, const std::string& part) const {
    FrozenCache::Stores stores;
    if (!source_.config.cache || data.identity.empty()) return stores;
    const std::string model = weights_content_hash(weights_, session_.job().database);
    for (const std::string& signal : source_.wanted) {
      const std::string key = signal + " of model " + model + " (" + text_of(shape_) + "), data " + data.identity +
                              part + ", windows of " + std::to_string(experiment_.train.sequence_length) + ", " +
                              to_string(precision()) + " on " + (session_.device().is_cpu() ? "cpu" : "cuda");
      stores[signal] = std::make_unique<SignalStore>(session_.cache_folder() / "signals", key,
                                                     experiment_.train.sequence_length, log_warning);
    }
    return stores;
  }

 private:
  std::unique_ptr<FrozenModel> build() const {
    ShardedModelRequest request;
    request.layout.model = &shape_;
    request.layout.heads = reads_values() ? Heads::none : Heads::first;
    request.layout.value_heads = heads_;
    ParallelConfig parallel = experiment_.parallel;
    parallel.strategy = source_.config.strategy.value_or(parallel.strategy);
    parallel.precision = precision();
    parallel.replicate_frozen = false;  // this model has a strategy of its own
    request.options = group_options(parallel, session_.device());
    request.positions = experiment_.train.sequence_length;
    auto model = std::make_unique<ShardedModel>(request, session_.channels());
    load_model(weights_, *model);
    return std::make_unique<FrozenModel>(std::move(model), chunk_tokens(shape_.vocab_size));
  }
  bool reads_values() const { return source_.wanted.count("value") > 0; }
  Precision precision() const { return source_.config.precision.value_or(experiment_.parallel.precision); }
  ModelConfig shape() const {
    if (source_.config.model) return *source_.config.model;
    const Experiment* stage = experiment_.stage(source_.table);
    return stage ? stage->model : model_config_of(weights_, experiment_.model);
  }

  Session& session_;
  const Experiment& experiment_;
  Source source_;
  std::filesystem::path weights_;
  ModelConfig shape_;
  std::vector<ValueHead> heads_;
  std::shared_ptr<FrozenModel> model_;
};

}  // namespace

FrozenCaches open_frozen(Session& session, const Experiment& experiment, const Stages& stages,
                         const ActivePipeline& pipeline, const Prepared& data) {
  FrozenCaches opened;
  for (const Source& source : {Source{"reference", experiment.reference, pipeline.reference, false},
                               Source{"value", experiment.value, pipeline.value, pipeline.needs.scores}}) {
    if (source.wanted.empty()) continue;
    const auto frozen = std::make_shared<Frozen>(session, experiment, stages, source);
    const auto signals = [&](const std::string& part) {
      return std::make_unique<FrozenCache>(
          source.table, source.wanted, [frozen] { return frozen->model(); }, frozen->stores(data, part));
    };
    opened.training.push_back(signals(""));
    opened.validation.push_back(signals(" held out"));
  }
  return opened;
}

}  // namespace wmtp
