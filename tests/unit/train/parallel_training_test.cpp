// A promise of model/torch/block.hpp, shard, step and train/trainer.hpp together: training with blocks whose features
// are divided among ranks (parallel.tensor) and with sections of the model on different ranks (parallel.pipeline), also
// together with divided positions (parallel.sequence), is training on one rank up to the order of sums, with the same
// initial model, equal ranks and repeatable bits. Checkpoints do not know the layout that wrote them.
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "checkpoint/torch/model_files.hpp"
#include "checkpoint/torch/state_saver.hpp"
#include "checkpoint/torch/training_state.hpp"
#include "shard/whole_parameters.hpp"
#include "support/plain_store.hpp"
#include "support/ranks.hpp"
#include "support/test_folder.hpp"
#include "support/tiny_training.hpp"

namespace wmtp::test {
namespace {

constexpr int64_t sequences = 4, steps = 4;

struct Layout {
  int ranks, sequence, tensor;
  Strategy strategy;
  int64_t micro_batches = 1;
  int pipeline = 1;
};
const Layout one_rank{1, 1, 1, Strategy::no_shard};

std::string text_of(const Layout& layout) {
  return std::to_string(layout.ranks) + " ranks, sequence " + std::to_string(layout.sequence) + ", tensor " +
         std::to_string(layout.tensor) + ", " + to_string(layout.strategy) + ", " +
         std::to_string(layout.micro_batches) + " micro-batches, pipeline " + std::to_string(layout.pipeline);
}

/// LoRA with dropout and DoRA's magnitudes on every layer, cut where its layer is.
class Dora : public LinearAdapter {
 public:
  bool trains(const std::string&) const override { return false; }
  std::vector<Param> declare(const Linear& layer) const override {
    return {{.name = "a", .shape = {4, layer.in}, .init = Param::Init::uniform, .bound = 0.3, .columns = Cut::in},
            {.name = "b", .shape = {layer.out, 4}, .init = Param::Init::uniform, .bound = 0.3, .rows = Cut::out},
            {.name = "magnitude", .shape = {1, layer.out}, .init = Param::Init::row_norms, .columns = Cut::out}};
  }
  Tensor forward(const Linear&, const Tensor& x, LinearCall& call) const override {
    const Tensor y = call.base(x) + call.linear(call.linear(call.dropout(x, 0.25), "a"), "b");
    const Tensor length = norms(call.weight() + call.value("b").mm(call.value("a")));
    return call.scale(y / length, "magnitude");
  }
  Tensor merged(const Linear&, const Tensor& weight, const std::vector<Tensor>& params) const override {
    const Tensor whole = weight + params[1].mm(params[0]);
    return whole * (params[2] / norms(whole)).t();
  }

 private:
  static Tensor norms(const Tensor& weight) {
    return at::linalg_vector_norm(weight, 2, at::IntArrayRef{1}).unsqueeze(0);
  }
};

Experiment experiment_of(const Layout& layout, const std::function<void(Experiment&)>& change) {
  Experiment e = tiny_experiment();
  e.model.heads = e.model.kv_heads = 4;
  e.parallel.strategy = layout.strategy;
  e.parallel.shard_group_size = layout.strategy == Strategy::hybrid_shard ? std::max<int64_t>(layout.tensor, 2) : 0;
  e.parallel.processes = layout.ranks;
  e.parallel.sequence = layout.sequence;
  e.parallel.tensor = layout.tensor;
  e.parallel.pipeline = layout.pipeline;
  e.train.batch_size = sequences / (data_ranks(e.parallel, layout.ranks) * layout.micro_batches);
  e.train.gradient_accumulation = layout.micro_batches;
  e.optimizer.eps = 1e-4;  // else AdamW divides the rounding of small gradients by small second moments
  change(e);
  return e;
}

/// Of this rank's section.
std::map<std::string, Tensor> parameters_of(const ShardedModel& model) {
  std::map<std::string, Tensor> all;
  for (const ParameterSet& set : parameter_sets(model)) {
    const GatheredSet gathered(model, set);
    for (const ParameterSpec* spec : set.parameters)
      if (gathered.has(spec->name)) all[spec->name] = gathered.parameter(spec->name).clone();
  }
  return all;
}

struct Observed {
  std::map<std::string, Tensor> first, last;  ///< parameters
  std::vector<double> losses, norms;
};

using MakeWeighting = std::function<std::unique_ptr<Weighting>()>;
struct Kind {
  std::function<void(Experiment&)> change = [](Experiment&) {};
  MakeWeighting weighting = baseline;
  const Adapter* adapter = nullptr;
};

/// Calls body(channels of this rank's section) on all ranks.
void on_ranks_of(const Layout& layout, const std::function<void(Channels&)>& body) {
  on_ranks(layout.ranks, [&](Channels& all) {
    all.form_sections(layout.pipeline);
    all.section_channels().share_sequences(layout.sequence, layout.tensor);
    body(all.section_channels());
  });
}

/// Of all ranks, after they were compared with one another.
Observed observe(const Layout& layout, const Kind& kind) {
  Observed seen;
  std::mutex mutex;
  on_ranks_of(layout, [&](Channels& channels) {
    TinyParts parts;
    parts.adapter = kind.adapter;
    TinyTraining training(experiment_of(layout, kind.change), kind.weighting(), channels, parts);
    Observed mine;
    mine.first = parameters_of(training.model());
    for (int64_t i = 0; i < steps; ++i) {
      const StepReport report = training->step();
      mine.losses.push_back(report.loss);
      mine.norms.push_back(report.metrics.at("train/grad_norm"));
    }
    mine.last = parameters_of(training.model());
    const std::lock_guard lock(mutex);
    if (seen.losses.empty()) seen.losses = mine.losses, seen.norms = mine.norms;
    EXPECT_EQ(mine.losses, seen.losses) << "ranks differ";
    EXPECT_EQ(mine.norms, seen.norms) << "ranks differ";
    for (const auto& [name, values] : mine.last)
      EXPECT_TRUE(at::equal(values, seen.last.try_emplace(name, values).first->second)) << name << " differs";
    for (const auto& [name, values] : mine.first)
      EXPECT_TRUE(at::equal(values, seen.first.try_emplace(name, values).first->second)) << name << " at the start";
  });
  return seen;
}

/// Layouts sum in another order, and AdamW divides the last bits by small moments. On a Xeon with AMX, parameters were
/// up to 5.7e-6 apart, with other forms of a block 2.2e-5, and norms 2.8e-6; on other processors 5e-6 and 2e-6.
void expect_like_one_rank(const Kind& kind, const std::vector<Layout>& layouts, double tolerance = 1e-5) {
  const Observed wanted = observe(one_rank, kind);
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(text_of(layout));
    const Observed found = observe(layout, kind);
    ASSERT_EQ(found.first.size(), wanted.first.size());
    ASSERT_EQ(found.last.size(), wanted.last.size());
    for (const auto& [name, values] : wanted.first)
      EXPECT_TRUE(at::equal(found.first.at(name), values)) << name << " at the start";
    for (size_t i = 0; i < size_t(steps); ++i) {
      EXPECT_NEAR(found.losses[i], wanted.losses[i], 1e-6 * wanted.losses[i]) << "step " << i;
      EXPECT_NEAR(found.norms[i], wanted.norms[i], 4e-6 * wanted.norms[i]) << "step " << i;
    }
    for (const auto& [name, values] : wanted.last) EXPECT_LT(distance(found.last.at(name), values), tolerance) << name;
  }
}

const std::vector<Layout> few{
    {2, 1, 2, Strategy::no_shard}, {4, 1, 2, Strategy::full_shard, 2}, {4, 2, 2, Strategy::shard_grad_op}};

TEST(TensorParallelTraining, IsThatOfOneRankUnderEveryStrategy) {
  std::vector<Layout> layouts{{2, 1, 2, Strategy::full_shard}, {4, 1, 4, Strategy::full_shard}};
  for (const Strategy strategy : {Strategy::no_shard, Strategy::shard_optimizer, Strategy::shard_grad_op,
                                  Strategy::full_shard, Strategy::hybrid_shard})
    for (const int64_t micro_batches : {1, 2}) layouts.push_back({4, 1, 2, strategy, micro_batches});
  layouts.push_back({4, 2, 2, Strategy::full_shard});
  expect_like_one_rank({}, layouts);
}

TEST(TensorParallelTraining, RepeatsItsBits) {
  const Layout layout{4, 2, 2, Strategy::full_shard};
  const Observed one = observe(layout, {}), other = observe(layout, {});
  EXPECT_EQ(one.losses, other.losses);
  EXPECT_EQ(one.norms, other.norms);
  for (const auto& [name, values] : one.last) EXPECT_TRUE(at::equal(values, other.last.at(name))) << name;
}

TEST(TensorParallelTraining, KeepsEveryFormOfABlock) {
  Kind kind;
  kind.change = [](Experiment& e) {
    e.model.qkv_bias = e.model.o_bias = e.model.qk_norm = e.model.tie_word_embeddings = true;
    e.parallel.activation_checkpointing = 0.5;
  };
  expect_like_one_rank(kind, few, 3e-5);
  kind.change = [](Experiment& e) {
    e.model.post_norm = true;
    e.model.kv_heads = 4;
    e.model.heads = 8;
    e.model.sliding_window = 5;
  };
  expect_like_one_rank(kind, few, 3e-5);
}

TEST(TensorParallelTraining, RunsChainedHeads) {
  Kind kind;
  for (const FutureHeads heads : {FutureHeads::chained, FutureHeads::shared}) {
    kind.change = [=](Experiment& e) { e.model.future_heads = heads; };
    expect_like_one_rank(kind, few);
  }
}

TEST(TensorParallelTraining, GivesAWeightingWholeSequences) {
  Kind kind;
  kind.weighting = keeps_excess;
  for (const ReferenceHeads heads : {ReferenceHeads::next, ReferenceHeads::own}) {
    kind.change = [=](Experiment& e) { e.reference.heads = heads; };
    expect_like_one_rank(kind, {{2, 1, 2, Strategy::full_shard}, {4, 2, 2, Strategy::full_shard}});
  }
}

/// 40 ids are divided; 41 have no equal pieces, so every rank gathers the whole embedding and output layer.
TEST(TensorParallelTraining, DividesTheVocabularyOrGathersIt) {
  for (const int64_t vocab_size : {40, 41})
    for (const When when : {When::token, When::head, When::all}) {
      SCOPED_TRACE(std::to_string(vocab_size) + " ids");
      Kind kind;
      kind.change = [=](Experiment& e) { e.model.vocab_size = vocab_size; };
      kind.weighting = [=] {
        return std::make_unique<Weigh>(
            Needs{.when = when, .reads = {Signal::policy_loss, Signal::policy_entropy}}, [](AnyStep step) {
              const Tensor share = step.get(Signal::policy_entropy).sigmoid() * step.get(Signal::policy_loss).sigmoid();
              return Weights::by_source(share);
            });
      };
      expect_like_one_rank(kind, few);
    }
}

TEST(TensorParallelTraining, CutsAnAdapterWithItsLayerAndDrawsTheSameDropout) {
  const Dora dora;
  Kind kind;
  kind.adapter = &dora;
  expect_like_one_rank(kind, few);
}

TEST(TensorParallelTraining, OrthogonalizesWholeMatrices) {
  Kind kind;
  kind.change = [](Experiment& e) {
    e.optimizer.kind = OptimizerKind::muon;
    e.optimizer.momentum = 0.95;
  };
  expect_like_one_rank(kind, few, 2e-5);  // Newton's iterations enlarge rounding
}

/// Each norm with a limit that the gradients of these models exceed.
const std::map<Norm, double> clipped{{Norm::l2, 0.05}, {Norm::l1, 1}, {Norm::inf, 0.002}};

TEST(TensorParallelTraining, ClipsEveryNormOfAllPieces) {
  for (const auto& [norm, limit] : clipped) {
    Kind kind;
    kind.change = [norm = norm, limit = limit](Experiment& e) { e.train.norm = norm, e.train.clip_norm = limit; };
    expect_like_one_rank(kind, few);
  }
}

/// Sections of 4 trunk blocks and 3 heads.
void four_blocks(Experiment& e) { e.model.layers = 7; }

const std::vector<Layout> sections{{2, 1, 1, Strategy::no_shard, 1, 2},        {2, 1, 1, Strategy::full_shard, 4, 2},
                                   {3, 1, 1, Strategy::shard_grad_op, 2, 3},   {4, 1, 1, Strategy::full_shard, 2, 4},
                                   {4, 1, 1, Strategy::shard_optimizer, 2, 2}, {4, 1, 2, Strategy::full_shard, 4, 2},
                                   {4, 2, 1, Strategy::shard_grad_op, 2, 2}};

TEST(PipelineTraining, IsThatOfOneRank) {
  Kind kind;
  kind.change = four_blocks;
  expect_like_one_rank(kind, sections);
}

TEST(PipelineTraining, ClipsEveryNormOfAllSections) {
  for (const auto& [norm, limit] : clipped) {
    Kind kind;
    kind.change = [norm = norm, limit = limit](Experiment& e) {
      four_blocks(e);
      e.train.norm = norm, e.train.clip_norm = limit;
    };
    expect_like_one_rank(kind, {{3, 1, 1, Strategy::shard_grad_op, 2, 3}, {4, 1, 2, Strategy::full_shard, 4, 2}});
  }
}

/// `layout` has several sections.
void expect_bits_of_one_section(const Layout& layout, const Kind& kind) {
  Layout alone = layout;
  alone.ranks /= layout.pipeline;
  alone.pipeline = 1;
  const Observed one = observe(alone, kind), several = observe(layout, kind);
  EXPECT_EQ(one.losses, several.losses) << text_of(layout);
  for (size_t i = 0; i < one.norms.size(); ++i) EXPECT_NEAR(several.norms[i], one.norms[i], 1e-12 * one.norms[i]);
  for (const auto& [name, values] : one.last)
    EXPECT_TRUE(at::equal(values, several.last.at(name))) << name << ", " << text_of(layout);
}

TEST(PipelineTraining, OfOneSectionOnAsManyRanksHasTheSameBitsWithoutClipping) {
  Kind kind;
  const auto unclipped = [](Experiment& e) {
    four_blocks(e);
    e.train.clip_norm = 0;
  };
  kind.change = unclipped;
  for (const Layout& layout : sections) expect_bits_of_one_section(layout, kind);
  const Layout two{4, 1, 1, Strategy::full_shard, 2, 2};
  for (const auto change : {+[](Experiment& e) { e.parallel.precision = Precision::bf16; },
                            +[](Experiment& e) { e.parallel.activation_checkpointing = 1; },
                            +[](Experiment& e) { e.optimizer.kind = OptimizerKind::muon; }}) {
    kind.change = [&](Experiment& e) { unclipped(e), change(e); };
    expect_bits_of_one_section(two, kind);
  }
  const Dora dora;
  kind.adapter = &dora;
  kind.change = unclipped;
  expect_bits_of_one_section(two, kind);
}

TEST(PipelineTraining, RecomputesAndOffloads) {
  Kind kind;
  kind.change = [](Experiment& e) {
    four_blocks(e);
    e.parallel.activation_checkpointing = 0.75;
    e.parallel.activation_offload = true;
  };
  expect_like_one_rank(kind, sections);
}

TEST(PipelineTraining, ReadsAReferenceAndNormalizesByWeights) {
  Kind kind;
  kind.weighting = keeps_excess;
  for (const ReferenceHeads heads : {ReferenceHeads::next, ReferenceHeads::own}) {
    kind.change = [=](Experiment& e) {
      four_blocks(e);
      e.reference.heads = heads;
    };
    expect_like_one_rank(kind, {{2, 1, 1, Strategy::full_shard, 1, 2}, {4, 1, 2, Strategy::full_shard, 1, 2}});
  }
  kind.weighting = [] {
    return std::make_unique<Weigh>(Needs{.when = When::head, .reads = {Signal::policy_loss}}, [](AnyStep step) {
      return Weights::by_source(step.get(Signal::policy_loss).sigmoid());
    });
  };
  kind.change = [](Experiment& e) {
    four_blocks(e);
    e.train.normalize = LossDivisor::weights;
  };
  expect_like_one_rank(kind, sections);
}

TEST(PipelineTraining, TrainsAnAdapterInEverySection) {
  const Dora dora;
  Kind kind;
  kind.adapter = &dora;
  kind.change = four_blocks;
  expect_like_one_rank(kind, sections);
}

/// Trains the blocks of the last section, or of the heads, alone: no gradient crosses the border.
class After final : public Adapter {
 public:
  explicit After(std::string prefix) : prefix_(std::move(prefix)) {}
  bool trains(const std::string& name) const override { return name.starts_with(prefix_); }

 private:
  std::string prefix_;
};

TEST(PipelineTraining, SendsNoGradientWhereNothingBeforeTrains) {
  for (const char* prefix : {"layers.3.", "extra_heads.", "layers.0."}) {
    SCOPED_TRACE(prefix);
    const After after(prefix);
    Kind kind;
    kind.adapter = &after;
    kind.change = four_blocks;
    expect_like_one_rank(kind, sections);
  }
}

/// Models whose first and last sections hold the embedding. A step has twelve sequences, which one to four
/// micro-batches divide, and clipping is active.
using Change = std::function<void(Experiment&)>;
Change with_twins(bool tied, bool chained) {
  return [=](Experiment& e) {
    four_blocks(e);
    e.model.tie_word_embeddings = tied;
    e.model.future_heads = chained ? FutureHeads::chained : FutureHeads::parallel;
    e.train.clip_norm = 0.05;
    e.train.batch_size = 12 / (data_ranks(e.parallel, e.parallel.processes) * e.train.gradient_accumulation);
  };
}
const std::vector<Change> models_with_twins{with_twins(true, false), with_twins(false, true), with_twins(true, true)};

const std::vector<Layout> few_sections{{2, 1, 1, Strategy::full_shard, 3, 2},
                                       {3, 1, 1, Strategy::shard_grad_op, 2, 3},
                                       {4, 1, 2, Strategy::full_shard, 2, 2}};

/// Their gradients are rounded once more than one rank's, and the norm with them.
TEST(TwinTraining, IsThatOfOneRank) {
  std::vector<Layout> layouts = few_sections;
  layouts.insert(layouts.end(), {{2, 1, 1, Strategy::no_shard, 1, 2},
                                 {3, 1, 1, Strategy::no_shard, 1, 3},
                                 {4, 1, 1, Strategy::shard_optimizer, 2, 2},
                                 {4, 2, 1, Strategy::shard_grad_op, 2, 2},
                                 {6, 1, 2, Strategy::full_shard, 3, 3},
                                 {8, 1, 2, Strategy::hybrid_shard, 3, 2}});
  for (const Change& change : models_with_twins) {
    Kind kind;
    kind.change = change;
    expect_like_one_rank(kind, layouts);
  }
}

TEST(TwinTraining, RepeatsItsBits) {
  for (const Change& change : models_with_twins) {
    Kind kind;
    kind.change = change;
    const Observed one = observe(few_sections.back(), kind), other = observe(few_sections.back(), kind);
    EXPECT_EQ(one.losses, other.losses);
    EXPECT_EQ(one.norms, other.norms);
    for (const auto& [name, values] : one.last) EXPECT_TRUE(at::equal(values, other.last.at(name))) << name;
  }
}

TEST(TwinTraining, RecomputesOffloadsAndAverages) {
  const TestFolder folder(memory_folder());
  for (const Change& change : models_with_twins) {
    Kind kind;
    kind.change = [&](Experiment& e) {
      change(e);
      e.parallel.activation_checkpointing = 1;
      e.parallel.activation_offload = true;
      e.parallel.optimizer_offload = OptimizerOffload::nvme;
      e.parallel.offload_path = folder.path().string();
      e.train.ema = 0.9;
    };
    expect_like_one_rank(kind, few_sections);
  }
}

/// Trains value heads beside the token heads, and weighs tokens by the first values.
class ValuesToo final : public Weighting {
 public:
  Needs needs() const override { return {.values = {value_}, .heads = {{"v", "linear"}}}; }
  Tensor value_loss(ValueStep& step) override { return (step.leaf(value_) - 1).square().sum() / 400; }
  Weights weigh(BatchStep& step) override { return Weights::by_target(step.value(value_).sigmoid()); }

 private:
  const ValueSignal value_ = ValueSignal::of_policy("v");
};

TEST(TwinTraining, WeighsByValuesAndByAReference) {
  for (const Change& change : models_with_twins) {
    Kind kind;
    kind.change = change;
    kind.weighting = keeps_excess;
    expect_like_one_rank(kind, {{2, 1, 1, Strategy::full_shard, 1, 2}, {4, 1, 2, Strategy::full_shard, 1, 2}});
    kind.weighting = [] { return std::make_unique<ValuesToo>(); };
    expect_like_one_rank(kind, few_sections);
  }
}

TEST(TwinTraining, OfTheEmbeddingAloneOrWithoutItIsThatOfOneRank) {
  const Dora dora;
  const After embedding("tok_embeddings."), heads("extra_heads."), norm("norm.");
  for (const Change& change : models_with_twins)
    for (const Adapter* adapter : std::initializer_list<const Adapter*>{&embedding, &dora, &heads, &norm}) {
      Kind kind;
      kind.change = change;
      kind.adapter = adapter;
      expect_like_one_rank(kind, {few_sections.front(), few_sections.back()});
    }
}

TEST(TwinTraining, CountsAFrozenTwinOnceInTheFingerprintOfAnAdaptersBase) {
  const Dora dora;
  for (const Change& change : models_with_twins) {
    std::set<uint64_t> found;
    std::mutex mutex;
    std::vector<Layout> layouts = few_sections;
    layouts.push_back(one_rank);
    for (const Layout& layout : layouts)
      on_ranks_of(layout, [&](Channels& channels) {
        TinyParts parts;
        parts.adapter = &dora;
        TinyTraining training(experiment_of(layout, change), baseline(), channels, parts);
        const uint64_t fingerprint = training.model().base_fingerprint();
        const std::lock_guard lock(mutex);
        found.insert(fingerprint);
      });
    EXPECT_EQ(found.size(), 1U);
  }
}

TEST(TwinTraining, ExportsEachParameterOnceAndUnchanged) {
  for (const Change& change : models_with_twins)
    for (const Layout& layout : few_sections) {
      SCOPED_TRACE(text_of(layout));
      std::map<std::string, Tensor> exported, held;
      std::mutex mutex;
      on_ranks_of(layout, [&](Channels& channels) {
        TinyTraining training(experiment_of(layout, change), baseline(), channels);
        training->step();
        const auto visit = [&](const ParameterSpec& spec, const Tensor& value) {
          EXPECT_TRUE(exported.emplace(spec.name, value.clone()).second) << spec.name << " twice";
        };
        const bool writes = channels.all().rank() == 0;
        ASSERT_FALSE(for_each_saved_tensor(training.model(), nullptr, writes ? VisitSaved(visit) : nullptr));
        const auto mine = parameters_of(training.model());
        const std::lock_guard lock(mutex);
        held.insert(mine.begin(), mine.end());
      });
      ASSERT_EQ(exported.size(), held.size());
      for (const auto& [name, values] : held) EXPECT_TRUE(at::equal(exported.at(name), values)) << name;
    }
}

void save(TinyTraining& training, const fs::path& folder, Channels& channels) {
  const TrainerState& state = training->state();
  StateSaver saver(channels.peers(), training->optimizer(), folder, {9});
  saver.begin({state.step, "hash", {}, state.saved(), &state.pipeline_state}, SaveMode::alone);
  ASSERT_EQ(saver.finish()->failure, "");
}

/// Logical state, as a checkpoint holds it, after loading; and what an export of the model then writes.
std::map<std::string, Tensor> load_and_gather(const Layout& layout, const Change& change, const fs::path& folder) {
  std::map<std::string, Tensor> all;
  std::mutex mutex;
  on_ranks_of(layout, [&](Channels& channels) {
    TinyTraining training(experiment_of(layout, change), baseline(), channels);
    std::map<std::string, Tensor> pipeline_state;
    load_training_state(folder / checkpoint_name(steps), training->optimizer(), pipeline_state);
    const auto exported = [&](const ParameterSpec& spec, const Tensor& value) {
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(all.emplace("exported/" + spec.name, value.clone()).second) << spec.name << " twice";
    };
    const bool writes = channels.all().rank() == 0;
    ASSERT_FALSE(for_each_saved_tensor(training.model(), nullptr, writes ? VisitSaved(exported) : nullptr));
    for (ShardedOptimizer::State& state : training->optimizer().states())
      for (const auto& [prefix, flat] : state.whole().flats()) {
        const Tensor pieces = state.group->gather_pieces(state.group->gather_shards(flat));
        const std::lock_guard lock(mutex);
        for (const FlatParameter& placed : state.group->parameters()) {
          const std::string name = prefix + placed.spec.name;
          const Tensor values = ParameterGroup::joined(placed, pieces).clone();
          EXPECT_TRUE(at::equal(values, all.try_emplace(name, values).first->second)) << name << ": ranks differ";
        }
      }
  });
  return all;
}

void expect_every_layout_loads(const std::vector<Layout>& layouts, const Change& change) {
  for (const Layout& saving : layouts) {
    SCOPED_TRACE(text_of(saving));
    TestFolder folder(memory_folder());
    on_ranks_of(saving, [&](Channels& channels) {
      TinyTraining training(experiment_of(saving, change), baseline(), channels);
      for (int64_t i = 0; i < steps; ++i) training->step();
      save(training, folder.path(), channels);
    });
    const auto wanted = load_and_gather(saving, change, folder.path());
    EXPECT_GT(wanted.size(), 100U);
    for (const Layout& loading : layouts) {
      const auto found = load_and_gather(loading, change, folder.path());
      ASSERT_EQ(found.size(), wanted.size());
      for (const auto& [name, values] : wanted)
        EXPECT_TRUE(at::equal(found.at(name), values)) << name << " loaded by " << text_of(loading);
    }
  }
}

TEST(ParallelTraining, SavesWhatEveryLayoutLoadsAndExports) {
  expect_every_layout_loads({one_rank,
                             {2, 1, 1, Strategy::full_shard},
                             {2, 1, 2, Strategy::full_shard},
                             {2, 2, 1, Strategy::full_shard},
                             {4, 1, 1, Strategy::hybrid_shard},
                             {4, 1, 2, Strategy::hybrid_shard},
                             {4, 2, 2, Strategy::shard_grad_op},
                             {4, 1, 4, Strategy::no_shard},
                             {2, 1, 1, Strategy::full_shard, 2, 2},
                             {4, 1, 2, Strategy::full_shard, 2, 2}},
                            [](Experiment&) {});
}

TEST(TwinTraining, SavesWhatEveryLayoutLoadsAndExports) {
  std::vector<Layout> layouts = few_sections;
  layouts.push_back(one_rank);
  layouts.push_back({2, 1, 2, Strategy::full_shard});
  expect_every_layout_loads(layouts, [](Experiment& e) {
    with_twins(true, true)(e);
    e.train.ema = 0.9;
  });
}

}  // namespace
}  // namespace wmtp::test
