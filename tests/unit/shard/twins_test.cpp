// Twins: the embedding of a model whose heads read it, in the first section and in the last, on ranks as threads. The
// numbers are whole, so that sums are exact.
#include <gtest/gtest.h>

#include <mutex>

#include "optimizer/torch/sharded_optimizer.hpp"
#include "shard/sharded_model.hpp"
#include "support/ranks.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::on_ranks;

constexpr int64_t micro_batches = 2;

/// Trains the parameters whose names begin with one of these.
class Beginning : public Adapter {
 public:
  explicit Beginning(std::vector<std::string> names) : names_(std::move(names)) {}
  bool trains(const std::string& name) const override {
    return std::ranges::any_of(names_, [&](const std::string& one) { return name.starts_with(one); });
  }

 private:
  std::vector<std::string> names_;
};

ModelConfig tied_model() {
  ModelConfig model;
  model.dim = 8;
  model.layers = 4;
  model.heads = model.kv_heads = 2;
  model.ffn_dim = 16;
  model.vocab_size = 13;
  model.future_tokens = 2;
  model.tie_word_embeddings = true;
  return model;
}

struct Layout {
  int sections, ranks_of_section;
  Strategy strategy;
};
std::string text_of(const Layout& layout) {
  return std::to_string(layout.sections) + " sections, " + to_string(layout.strategy);
}

/// What a rank's micro-batch adds to the gradient.
Tensor contribution(int64_t rank, int64_t micro_batch, const std::vector<int64_t>& shape) {
  const Tensor all = at::arange(c10::multiply_integers(shape), at::kFloat).view(shape);
  return all.remainder(7) + 10 * double(rank) + double(micro_batch);
}

struct Seen {
  std::vector<Tensor> gradients;  ///< whole, of every rank with the embedding
  double square = 0;              ///< of the norm, over all ranks
};

/// Twins, and the faults that tests plant into them.
struct Twins {
  using Exchange = std::function<std::unique_ptr<RankExchange>(const RankGroup&)>;
  Exchange exchange = [](const RankGroup& ranks) { return std::make_unique<GroupExchange>(ranks, "gradients"); };
  bool count_once = true;
};

/// The embedding's gradients after a step.
Seen step(const Layout& layout, const Twins& twins = {}) {
  const ModelConfig model = tied_model();
  const Beginning everything({""});
  ModelSpec spec;
  spec.model = &model;
  spec.adapter = &everything;
  Seen seen;
  std::mutex mutex;
  on_ranks(layout.sections * layout.ranks_of_section, [&](Channels& all) {
    all.form_sections(layout.sections);
    Channels& channels = all.section_channels();
    std::optional<ShardUnit> embedding;
    for (UnitSpec& unit : section_units(model_units(spec), spec, {channels.section_index(), layout.sections})) {
      if (unit.name != "tok_embeddings") continue;
      unit.is_second_twin &= twins.count_once;
      embedding.emplace(unit, GroupOptions{layout.strategy, at::kFloat, at::kCPU, /*shard_group_size=*/2}, channels);
    }
    EXPECT_EQ(embedding.has_value(), channels.section_index() % (layout.sections - 1) == 0) << "not in the middle";
    std::vector<ParameterGroup*> groups;
    if (embedding) {
      ParameterGroup& group = *groups.emplace_back(embedding->groups().front().get());
      for (int64_t i = 0; i < micro_batches; ++i) {
        group.add_gradient(0, contribution(all.rank(), i, group.parameters().front().spec.shape));
        group.start_reduce(/*last=*/i == micro_batches - 1);
        group.finish_reduce();
        group.finish_replicate_reduce();
        group.finish_replicate_gather();
      }
      group.sum_over_twins(*twins.exchange(channels.twins()));
      const FlatParameter& placed = group.parameters().front();
      const Tensor whole = group.gather_shards(group.gradient()).narrow(0, 0, placed.count).view(placed.spec.shape);
      const std::lock_guard lock(mutex);
      seen.gradients.push_back(whole.clone());
    }
    const ShardedOptimizer optimizer({}, groups);
    const Tensor square = all.sum(optimizer.local_norm_part(Norm::l2), "the norm");
    const std::lock_guard lock(mutex);
    seen.square = square.item<double>();
  });
  return seen;
}

/// What is wrong with a step; empty: nothing.
std::string fault_of(const Layout& layout, const Seen& seen) {
  const int ranks = layout.ranks_of_section, last = (layout.sections - 1) * ranks;
  Tensor wanted = at::zeros({tied_model().vocab_size, tied_model().dim});
  for (int rank = 0; rank < ranks; ++rank)
    for (const int section : {0, last})
      for (int64_t i = 0; i < micro_batches; ++i) wanted += contribution(section + rank, i, wanted.sizes().vec());
  if (seen.gradients.size() != size_t(2 * ranks)) return "the embedding is in other sections";
  for (const Tensor& gradient : seen.gradients)
    if (!at::equal(gradient, wanted)) return "a gradient is not the sum of both";
  const double square = wanted.to(at::kDouble).square().sum().item<double>();
  return std::abs(seen.square - square) < 1e-12 * square ? "" : "the norm does not count the embedding once";
}

const std::vector<Layout> layouts{{2, 1, Strategy::no_shard},        {2, 2, Strategy::no_shard},
                                  {3, 2, Strategy::shard_optimizer}, {2, 2, Strategy::shard_grad_op},
                                  {3, 2, Strategy::full_shard},      {2, 4, Strategy::hybrid_shard}};

TEST(Twins, HaveTheSumOfTheirGradientsAndCountOnceInTheNorm) {
  for (const Layout& layout : layouts) EXPECT_EQ(fault_of(layout, step(layout)), "") << text_of(layout);
}

/// Leaves each rank what it had.
class NothingExchanged final : public RankExchange {
 public:
  explicit NothingExchanged(const RankGroup& ranks) : ranks_(ranks) {}
  int64_t ranks() const override { return ranks_.size; }
  int64_t rank() const override { return ranks_.rank; }
  Tensor all_to_all(const Tensor& parts) const override {
    kept_ = parts.clone();
    Tensor received = at::zeros_like(parts);
    received[rank()].copy_(parts[rank()]);
    return received;
  }
  Tensor all_gather(const Tensor& part) const override {
    kept_[rank()].copy_(part);
    return kept_;
  }

 private:
  RankGroup ranks_;
  mutable Tensor kept_;
};

TEST(Twins, WhoseGradientsAreNotSummedAreNoticed) {
  Twins twins;
  twins.exchange = [](const RankGroup& ranks) { return std::make_unique<NothingExchanged>(ranks); };
  for (const Layout& layout : layouts)
    EXPECT_EQ(fault_of(layout, step(layout, twins)), "a gradient is not the sum of both") << text_of(layout);
}

TEST(Twins, ThatCountTwiceInTheNormAreNoticed) {
  Twins twins;
  twins.count_once = false;
  for (const Layout& layout : layouts)
    EXPECT_EQ(fault_of(layout, step(layout, twins)), "the norm does not count the embedding once") << text_of(layout);
}

/// By section, whether a model has a twin whose gradient is summed.
std::vector<bool> sections_with_twins(const ModelConfig& model, const Adapter& adapter, Heads heads = Heads::all) {
  std::vector<bool> found(3);
  std::mutex mutex;
  on_ranks(3, [&](Channels& all) {
    all.form_sections(3);
    Channels& channels = all.section_channels();
    ShardedModelRequest request;
    request.spec.model = &model;
    request.spec.heads = heads;
    request.spec.adapter = &adapter;
    request.sequence_length = 8;
    request.section = {channels.section_index(), 3};
    const ShardedModel sharded(request, channels);
    const std::lock_guard lock(mutex);
    found[size_t(channels.section_index())] = sharded.has_twin();
  });
  return found;
}

TEST(Twins, AreWhereHeadsReadAnEmbeddingThatTrains) {
  const Beginning everything({""}), heads({"extra_heads.", "norm."});
  const std::vector<bool> ends{true, false, true}, none(3);
  ModelConfig model = tied_model();
  EXPECT_EQ(sections_with_twins(model, everything), ends);
  EXPECT_EQ(sections_with_twins(model, everything, Heads::none), none) << "no output layer";
  EXPECT_EQ(sections_with_twins(model, heads), none) << "frozen";
  model.tie_word_embeddings = false;
  EXPECT_EQ(sections_with_twins(model, everything), none);
  model.future_heads = FutureHeads::chained;
  EXPECT_EQ(sections_with_twins(model, everything), ends);
  EXPECT_EQ(sections_with_twins(model, everything, Heads::first), none) << "the first head reads the trunk alone";
}

}  // namespace
}  // namespace wmtp
