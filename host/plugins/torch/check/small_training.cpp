#include "plugins/torch/check/small_training.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/random.hpp"
#include "data/torch/batch_rows.hpp"
#include "model/model_tensors.hpp"
#include "plugins/torch/boundary.hpp"

namespace wmtp {
namespace {

constexpr int64_t padding_interval = 7;  // without pairs, every 7th row is padding
constexpr int64_t most_windows = 1024;   // that a trial reads

/// Batches of random records: prompts and answers of various lengths, in pairs of a right and a wrong answer, with some
/// rows of padding. A row depends only on its index in the order.
class RandomRecords final : public BatchSource {
 public:
  /// `parts` must outlive this object.
  RandomRecords(const SmallParts& parts, int64_t vocab_size, const BatchRequest& wanted)
      : BatchSource(parts.batch_size), parts_(parts), vocab_size_(vocab_size), wanted_(wanted) {
    wanted_.device = parts.device;
  }

  int64_t count() const override { return std::numeric_limits<int64_t>::max(); }
  int64_t windows() const override { return most_windows; }

  MicroBatch fetch(const std::vector<int64_t>& sequences, int64_t rank, int64_t world) const override {
    std::vector<int64_t> drawn;
    for (const int64_t sequence : sequences) drawn.push_back(is_padding(sequence) ? -1 : sequence);
    BatchRows rows(drawn, rank, world, parts_.sequence_length, wanted_, /*separate=*/false);
    MicroBatch& micro = rows.micro();
    micro.windows = micro.sequences;
    for (int64_t b = 0; b < rows.count(); ++b)
      if (micro.sequences[size_t(b)] >= 0) fill_row(micro.sequences[size_t(b)], b, rows);
    if (wanted_.pairs) micro.pairs = rows.count() / 2;
    return rows.finish();
  }

 private:
  static uint32_t draw(int64_t sequence, int64_t what) { return philox(1, uint64_t(sequence), uint64_t(what))[0]; }

  bool is_padding(int64_t sequence) const {
    return sequence < 0 || (!wanted_.pairs && sequence % padding_interval == padding_interval - 1);
  }

  void fill_row(int64_t sequence, int64_t b, BatchRows& rows) const {
    const int64_t S = parts_.sequence_length;
    // The two records of a pair have the same prompt and answers of different lengths.
    const int64_t prompt = parts_.targets ? 1 + draw(sequence / 2, -1) % 4 : draw(sequence, -1) % 2 == 0 ? S : 1;
    const int64_t answer = parts_.targets ? 1 + draw(sequence, -2) % (S - prompt) : 0;
    for (int64_t s = 0; s < prompt + answer; ++s)
      rows.ids(b)[s] = int64_t(draw(s < prompt ? sequence / 2 : sequence, s)) % vocab_size_;
    std::fill_n(rows.kinds(b), prompt, prompt_kind);
    std::fill_n(rows.kinds(b) + prompt, answer, answer_kind);
    rows.add_document(b, /*begin=*/0, prompt + answer);
    for (const Signal signal : wanted_.signals)
      if (signal != Signal::data_bytes)
        for (int64_t s = 0; s < prompt + answer; ++s)
          rows.signal(signal, b)[s] = signal == Signal::data_correct  ? float(1 - sequence % 2)
                                      : signal == Signal::data_weight ? float(draw(sequence, s) % 4) / 2
                                                                      : 0.5F;
    Batch& batch = rows.micro().batch;
    batch.correct.mutable_data_ptr<int64_t>()[b] = 1 - sequence % 2;
    if (wanted_.pairs) batch.partner.mutable_data_ptr<int64_t>()[b] = b ^ 1;
  }

  const SmallParts& parts_;
  int64_t vocab_size_;
  BatchRequest wanted_;
};

class EverythingTrains final : public Adapter {
 public:
  bool trains(const std::string&) const override { return true; }
};

/// `weighting`: null without one.
Experiment small_experiment(const SmallParts& parts, Weighting* weighting) {
  Experiment e;
  e.name = "trial";
  e.seed = 7;
  e.model.dim = 32;
  e.model.layers = 3;  // one trunk block, two heads
  e.model.heads = e.model.kv_heads = 2;
  e.model.ffn_dim = 48;
  e.model.vocab_size = 64;
  e.model.future_tokens = 2;
  e.data.kind = DataKind::records;
  e.train.steps = 1000;
  e.train.batch_size = parts.batch_size;
  e.train.sequence_length = parts.sequence_length;
  e.optimizer.lr = 1e-3;
  e.log.samples = 0;
  e.reference.given = e.value.given = true;  // all tables exist, for plugins that read them
  if (weighting)
    for (const ReferenceSignal& read : guarded(parts.name, "needs", [&] { return weighting->needs(); }).references)
      e.references[read.name].given = true;
  return e;
}

/// Makes values differ between tokens; initially they are all zero.
void draw_value_head(ShardedModel& model, double scale) {
  model.fill([&](const ParameterSpec& spec, int64_t begin, int64_t count, float* out) {
    if (!is_of_value_head(spec.name)) return false;
    for (int64_t i = 0; i < count; ++i) out[i] = float(scale * std::sin(double(begin + i + 1)));
    return true;
  });
}

/// Spreads the scores, so that tokens are predicted or missed with certainty.
void sharpen(ShardedModel& model, double factor) {
  if (factor == 1) return;
  for (const auto& group : model.unit("output").groups()) {
    group->master().mul_(factor);
    group->master_changed();
  }
}

std::unique_ptr<ShardedModel> small_model(const Experiment& experiment, const ModelSpec& spec, int64_t seed,
                                          const at::Device& device, Channels& channels) {
  ShardedModelRequest request;
  request.spec = spec;
  request.spec.model = &experiment.model;
  request.options.strategy = Strategy::no_shard;
  request.options.device = device;
  request.sequence_length = experiment.train.sequence_length;
  auto model = std::make_unique<ShardedModel>(request, channels);
  model->initialize(seed);
  return model;
}

}  // namespace

SmallTraining::SmallTraining(const SmallParts& parts)
    : SmallTraining(parts, parts.weighting ? parts.weighting() : nullptr) {}

SmallTraining::SmallTraining(const SmallParts& parts, std::unique_ptr<Weighting> weighting)
    : parts_(parts),
      experiment_(small_experiment(parts_, weighting.get())),
      pipeline_(make_pipeline(parts_.name, std::move(weighting), parts_.objective ? parts_.objective() : nullptr,
                              experiment_)) {
  if (parts_.auxiliary_loss) add_auxiliary_loss(parts_.name, parts_.auxiliary_loss(), experiment_, pipeline_);
  static const EverythingTrains everything;
  ModelSpec spec;
  spec.heads = pipeline_.objective ? Heads::none : Heads::all;
  spec.adapter = parts_.adapter ? parts_.adapter : &everything;
  spec.value_heads = pipeline_.needs.heads;
  model_ = small_model(experiment_, spec, experiment_.seed, parts_.device, rank_.channels);
  draw_value_head(*model_, 0.1);
  if (!pipeline_.objective) sharpen(*model_, parts_.sharpness);
  BatchRequest wanted;
  wanted.heads = model_->num_heads();
  wanted.prompts = pipeline_.needs.prompts;
  wanted.pairs = pipeline_.needs.pairs;
  wanted.signals = pipeline_.data_signals();
  wanted.token_bytes = at::arange(experiment_.model.vocab_size, at::kFloat).remainder(5).to(parts_.device);
  source_ = std::make_unique<RandomRecords>(parts_, experiment_.model.vocab_size, wanted);
  trainer_ =
      std::make_unique<Trainer>(experiment_, experiment_.train.steps, *model_, pipeline_, frozen_models(),
                                TrainerData{source_.get(), source_.get(), 4 * parts_.batch_size}, rank_.channels);
}

SmallTraining::~SmallTraining() = default;

FrozenCaches SmallTraining::frozen_models() {
  FrozenCaches frozen;
  int64_t seed = experiment_.seed;
  for (const auto& [table, wanted] : pipeline_.frozen) {
    const auto build = [this, values = table == "value", own = ++seed] { return frozen_model(values, own); };
    frozen.training.push_back(std::make_unique<FrozenCache>(table, wanted, build, FrozenCache::Stores{}));
  }
  return frozen;
}

std::shared_ptr<FrozenModel> SmallTraining::frozen_model(bool values, int64_t seed) {
  ModelSpec spec;
  spec.heads = values ? Heads::none : Heads::first;
  if (values) spec.value_heads = {{"value", "linear"}};
  auto model = small_model(experiment_, spec, seed, parts_.device, rank_.channels);
  if (values) draw_value_head(*model, parts_.value_scale);
  return std::make_shared<FrozenModel>(std::move(model),
                                       chunk_tokens(experiment_.model.vocab_size, parts_.device.is_cuda()));
}

void SmallTraining::replace_plugin() {
  if (parts_.auxiliary_loss) {
    pipeline_.auxiliary_loss->loss = parts_.auxiliary_loss();
    return;
  }
  if (parts_.objective)
    pipeline_.objective = parts_.objective();
  else
    pipeline_.weighting = parts_.weighting();
  guarded(parts_.name, "needs",
          [&] { return pipeline_.objective ? pipeline_.objective->needs() : pipeline_.weighting->needs(); });
}

std::vector<double> SmallTraining::losses(int steps) {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    const StepReport report = trainer_->step();
    if (!report.skipped.empty())
      throw Error(ExitStatus::plugin, "step " + std::to_string(report.step) + ": " + report.skipped);
    losses.push_back(report.loss);
  }
  return losses;
}

}  // namespace wmtp
