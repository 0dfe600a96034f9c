#include "train/frozen_models.hpp"

#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/torch/model_files.hpp"
#include "experiment/model_config.hpp"
#include "huggingface/initial_weights.hpp"
#include "job/frozen_shape.hpp"
#include "job/input_checks.hpp"
#include "job/tokenizer_check.hpp"
#include "job/weights_hash.hpp"
#include "train/assembly.hpp"

namespace wmtp {
namespace {

/// Everything in a shape that affects the model's outputs; the same tensors also fit another head count.
std::string model_shape_text(const ModelConfig& shape) {
  std::string text =
      printed("%lld x %lld, %lld and %lld heads, %lld wide, rope_theta %.17g, norm_eps %.17g",
              static_cast<long long>(shape.layers - shape.future_tokens), static_cast<long long>(shape.dim),
              static_cast<long long>(shape.heads), static_cast<long long>(shape.kv_heads),
              static_cast<long long>(shape.ffn_dim), shape.rope_theta, shape.norm_eps);
  if (const auto& rope = shape.rope_scaling)
    text += printed(", rope_scaling %s %.17g %.17g %.17g %lld", to_string(rope->rope_type), rope->factor,
                    rope->low_freq_factor, rope->high_freq_factor,
                    static_cast<long long>(rope->original_max_position_embeddings)) +
            (rope->rope_type == RopeType::yarn
                 ? printed(" %.17g %.17g %.17g", rope->attention_factor, rope->beta_fast, rope->beta_slow)
                 : "");
  for_each_shape_option(shape, [&](const ShapeOption& option, auto value) {
    if (value) text += printed(", %s %.17g", option.name, double(value));
  });
  return text;
}

struct FrozenTable {
  std::string name;  ///< "reference", "references.NAME" or "value"
  const FrozenConfig& config;
  const std::set<std::string>& wanted;
  bool reads_scores;
};

/// The frozen model of one table.
class FrozenSource {
 public:
  FrozenSource(Session& session, const Experiment& experiment, const Stages& stages, const FrozenTable& table,
               const Prepared& data)
      : session_(session),
        experiment_(experiment),
        table_(table),
        weights_(initial_weights(session, experiment, stages, table.name, table.config.weights)),
        shape_(frozen_shape(table.name, experiment, weights_)) {
    check_frozen_shape(table.name, weights_, shape_.model, experiment, table.reads_scores);
    check_frozen_tokenizer(table.name, weights_, experiment, data.folder);
    if (session.is_rank0())
      for (const std::string& warning : weight_warnings(table.name, weights_, shape_.model, experiment, data.folder))
        log_warning(warning);
    if (!reads_values()) return;
    value_heads_ = read_saved_value_heads(weights_);
    if (value_heads_.front().meaning.empty() && session.is_rank0() && !table.reads_scores)
      log_warning("[value] " + weights_.string() + ": its " + params_file_name +
                  " does not state whether its head learned values or scores; assuming values");
  }

  /// Loads the model on the first call. [all ranks, collective]
  std::shared_ptr<FrozenModel> model() {
    if (!model_) model_ = build();
    return model_;
  }

  /// Token heads whose signals are delivered; 1 for a value model.
  int64_t heads() const { return std::max<int64_t>(shape_.token_heads, 1); }

  /// The keys contain everything that the signals depend on: weights, shape, heads, `data` and `part` of them, length,
  /// precision, device. Hidden states are too large to keep, and the other signals come with them.
  FrozenCache::Stores stores(const std::set<std::string>& wanted, const std::string& data,
                             const std::string& part) const {
    FrozenCache::Stores stores;
    if (!table_.config.cache || data.empty() || wanted.contains("hidden")) return stores;
    const std::string model = weights_content_hash(weights_, session_.job().database);
    const std::vector<int64_t>& offsets = shape_.model.future_offsets;
    const std::string at_offsets = offsets.empty() ? "" : " at offsets " + offsets_text(offsets, heads());
    const std::string heads_text = heads() == 1 ? "" : " of heads 1 to " + std::to_string(heads()) + at_offsets;
    for (const std::string& signal : wanted) {
      const std::string key = signal + heads_text + " of model " + model + " (" + model_shape_text(shape_.model) +
                              "), data " + data + part + ", windows of " +
                              std::to_string(experiment_.train.sequence_length) + ", " + to_string(precision()) +
                              " on " + (session_.device().is_cpu() ? "cpu" : "cuda");
      stores[signal] = std::make_unique<SignalStore>(session_.cache_folder() / "signals", key,
                                                     experiment_.train.sequence_length * heads(), log_warning);
    }
    return stores;
  }

 private:
  std::unique_ptr<FrozenModel> build() const {
    auto model = std::make_unique<ShardedModel>(
        frozen_request(experiment_, table_.config, shape_.model, {shape_.token_heads, value_heads_}, session_.device()),
        session_.section_channels());
    load_model(weights_, *model);
    return std::make_unique<FrozenModel>(std::move(model),
                                         chunk_tokens(shape_.model.vocab_size, session_.device().is_cuda()));
  }
  bool reads_values() const { return table_.wanted.count("value") > 0; }
  Precision precision() const { return table_.config.precision.value_or(experiment_.parallel.precision); }

  Session& session_;
  const Experiment& experiment_;
  FrozenTable table_;
  std::filesystem::path weights_;
  FrozenShape shape_;
  std::vector<ValueHead> value_heads_;
  std::shared_ptr<FrozenModel> model_;
};

}  // namespace

FrozenCaches open_frozen(Session& session, const Experiment& experiment, const Stages& stages,
                         const ActivePipeline& pipeline, const Prepared& data) {
  FrozenCaches opened;
  if (!section_of(session.section_channels()).is_last()) return opened;  // only the heads read their signals
  for (const auto& [name, wanted_of_it] : pipeline.frozen) {
    const FrozenTable table{name, frozen_config(experiment, name), wanted_of_it,
                            name == "value" && pipeline.needs.scores};
    const auto frozen = std::make_shared<FrozenSource>(session, experiment, stages, table, data);
    const auto cache = [&](std::set<std::string> wanted, const std::string& identity, const std::string& part) {
      FrozenCache::Stores stores = frozen->stores(wanted, identity, part);
      return std::make_unique<FrozenCache>(
          table.name, std::move(wanted), [frozen] { return frozen->model(); }, std::move(stores), frozen->heads());
    };
    std::set<std::string> validated = table.wanted;
    // An auxiliary loss has no validation, but is part of the losses whose gradients samples compare.
    if (experiment.log.head_gradients_every == 0) validated.erase("hidden");
    // What packing changes is not part of the data's identity. Records are packed for training only.
    const DataConfig& config = experiment.data;
    const std::string separate = config.packing && config.kind == DataKind::text ? " separate documents" : "";
    const std::string packs = config.packing && config.kind == DataKind::records
                                  ? std::string(" packs of ") + to_string(config.select) + " records"
                                  : "";
    opened.training.push_back(cache(table.wanted, data.identity, separate + packs));
    if (!validated.empty())
      opened.validation.push_back(cache(validated, data.held_out_identity, " held out" + separate));
  }
  return opened;
}

}  // namespace wmtp
