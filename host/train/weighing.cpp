#include "train/weighing.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "data/tokens/step_count.hpp"
#include "data/torch/sources.hpp"
#include "memory/caught_error.hpp"
#include "plugins/torch/loader.hpp"
#include "train/assembly.hpp"
#include "train/frozen_models.hpp"

namespace wmtp {
namespace {

ActivePipeline open_weighting(const Session& session, const Experiment& experiment) {
  const Catalog& catalog = session.catalog();
  std::optional<PluginSetting> inner;
  if (experiment.inner) inner = plugin_setting(catalog, PluginKind::pipeline, *experiment.inner);
  return open_pipeline(plugin_setting(catalog, PluginKind::pipeline, experiment.pipeline), inner ? &*inner : nullptr,
                       experiment);
}

Prepared prepare_and_open(const Session& session, const Experiment& experiment, int64_t data_ranks, bool weights) {
  prepare_data(
      experiment, session.cache_folder(), [](const std::string& line) { log_info(line); }, weights);
  return open_prepared(experiment, session.cache_folder(), data_ranks, weights);
}

/// The experiment whose micro-batch has the sequences of all ranks.
Experiment with_whole_batches(Experiment experiment, int64_t data_ranks) {
  experiment.train.batch_size *= data_ranks;
  return experiment;
}

void check_value_heads(const ActivePipeline& pipeline, const std::filesystem::path& model) {
  const std::vector<ValueHead> saved = read_saved_value_heads(model);
  for (const ValueHead& head : pipeline.needs.heads)
    if (std::ranges::none_of(saved, [&](const ValueHead& one) { return one.name == head.name; }))
      throw Error(ExitStatus::data, model.string() + ": the model has no value head '" + head.name +
                                        "', which pipeline '" + pipeline.name +
                                        "' trains and reads; name a model that was trained with it");
}

class Weighing {
 public:
  Weighing(Session& session, const WeighRequest& request)
      : sequences_(session.job().experiment.validation.batches * session.job().experiment.train.batch_size),
        experiment_(with_whole_batches(session.job().experiment, request.data_ranks)),
        channels_(session.section_channels()),
        pipeline_(open_weighting(session, experiment_)),
        adapter_(create_adapter(session.catalog().describe(PluginKind::adapter, experiment_.adapter.plugin), {})),
        data_(prepare_and_open(session, session.job().experiment, request.data_ranks,
                               pipeline_.reads(Signal::data_weight))),
        model_(policy_request(experiment_, pipeline_, *adapter_, session.device()), channels_),
        frozen_(open_frozen(session, experiment_, session.job().stages, pipeline_, data_).validation),
        collectives_(channels_),
        step_runner_(model_, pipeline_, channels_, step_runner_config(session.device())) {
    check_value_heads(pipeline_, request.model);
    refuse_several_answers(experiment_, pipeline_, data_);
    load_model(request.model, model_);
    const BatchRequest batches = batch_request(experiment_, pipeline_, data_, session.device());
    source_ = validation_batches(experiment_, data_, batches);
    sequences_ = std::min(sequences_, source_->count());
    result_.pipeline = pipeline_.name;
    result_.heads = model_.num_heads();
    result_.steps = num_steps(experiment_.train, training_batches(experiment_, data_, batches, 1)->count(), 1);
    result_.step = request.step > 0 ? request.step : result_.steps;
  }

  WeighedTokens run() {
    const RunContext run_context{
        model_.num_heads(), experiment_.model.vocab_size, experiment_.seed, result_.steps, collectives_, states_};
    const int64_t size = experiment_.train.batch_size;
    WorkProgress progress("weighing tokens", sequences_);
    for (int64_t first = 0; first < sequences_; first += size) {
      const std::vector<MicroBatch> micros{source_->held_out(first, sequences_, /*rank=*/0, /*world=*/1)};
      const MicroBatch& micro = micros.front();
      const StepCounts counts = count_over_ranks(micros, channels_, "counting the tokens");
      StepTotals dropped;
      MicroBatchContext step(run_context, {result_.step, counts, dropped}, micro, FrozenSignals(frozen_, micros).of(0));
      take(micro, step_runner_.weigh(step));
      step_runner_.refuse_faulty_weights();
      step_runner_.forget_weights();
      progress.advance(std::min(size, sequences_ - first));
    }
    return std::move(result_);
  }

 private:
  StepRunnerConfig step_runner_config(const at::Device& device) const {
    StepRunnerConfig config;
    config.seed = experiment_.seed;
    config.token_loss.chunk_tokens = chunk_tokens(experiment_.model.vocab_size, device.is_cuda());
    return config;
  }

  void take(const MicroBatch& micro, const std::vector<WeighedLosses>& heads) {
    const at::Tensor tokens = micro.batch.tokens.cpu(), kinds = micro.batch.kind.cpu();
    std::vector<WeighedLosses> here;
    std::vector<at::Tensor> sources;
    for (const WeighedLosses& head : heads) {
      here.push_back({head.losses.cpu(), head.weights.cpu()});
      sources.push_back(micro.sources(int64_t(here.size())).cpu());
    }
    const auto token = tokens.accessor<int64_t, 2>();
    const auto kind = kinds.accessor<uint8_t, 2>();
    constexpr float none = std::numeric_limits<float>::quiet_NaN();
    for (int64_t b = 0; b < tokens.size(0); ++b)
      for (int64_t position = 0; position < tokens.size(1); ++position) {
        if (micro.sequences[size_t(b)] < 0 || kind[b][position] == 0) continue;
        add_token(micro.sequences[size_t(b)], position, token[b][position], position > 0 ? token[b][position - 1] : -1);
        for (int64_t k = 1; k <= int64_t(here.size()); ++k) {
          const int64_t source = position - micro.offset(k);
          const bool is_target = source >= 0 && sources[size_t(k - 1)].accessor<bool, 2>()[b][source];
          const WeighedLosses& head = here[size_t(k - 1)];
          result_.loss.push_back(is_target ? head.losses.accessor<float, 2>()[b][source] : none);
          result_.weight.push_back(is_target ? head.weights.accessor<float, 2>()[b][source] : none);
        }
      }
  }

  void add_token(int64_t sequence, int64_t position, int64_t token, int64_t before) {
    result_.sequence.push_back(sequence);
    result_.position.push_back(position);
    result_.token.push_back(token);
    result_.text.push_back(text_after(before, token));
    result_.shown.push_back(token_text(data_.tokenizer.get(), token));
  }

  /// Some tokenizers decode the first token of a text without the space that it begins with.
  std::string text_after(int64_t before, int64_t token) const {
    if (!data_.tokenizer) return "";
    const std::string alone = data_.tokenizer->decode({int32_t(token)});
    if (before < 0 || alone.empty()) return alone;
    const std::string first = data_.tokenizer->decode({int32_t(before)});
    const std::string both = data_.tokenizer->decode({int32_t(before), int32_t(token)});
    return both.starts_with(first) ? both.substr(first.size()) : alone;
  }

  int64_t sequences_;
  const Experiment experiment_;
  Channels& channels_;
  ActivePipeline pipeline_;
  std::unique_ptr<Adapter> adapter_;
  Prepared data_;
  ShardedModel model_;
  FrozenSignals::Models frozen_;
  RankCollectives collectives_;
  StepRunner step_runner_;
  std::map<std::string, at::Tensor> states_;
  std::unique_ptr<BatchSource> source_;
  WeighedTokens result_;
};

}  // namespace

WeighedTokens weigh_tokens(Session& session, const WeighRequest& request) try {
  session.channels().form_sections(1);
  session.section_channels().share_sequences(1, 1);
  return Weighing(session, request).run();
} catch (...) {
  rethrow_from("while tokens were weighed",
               "use a smaller model or fewer validation.batches, or close other programs that use memory");
}

}  // namespace wmtp
