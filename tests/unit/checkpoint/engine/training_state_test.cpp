// What a run goes on from, saved under one layout and loaded under another.
#include "checkpoint/training_state.hpp"

#include <gtest/gtest.h>

#include "../../support/ranks.hpp"
#include "../test_folder.hpp"
#include "base/philox.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::on_ranks;

class Everything : public Adapter {
 public:
  bool trains(const std::string&) const override { return true; }
};

struct Layout {
  int ranks;
  Strategy strategy;
  int group_size = 0;
};

const Layout layouts[] = {{1, Strategy::full_shard},     {2, Strategy::no_shard},        {3, Strategy::full_shard},
                          {2, Strategy::shard_grad_op},  {4, Strategy::hybrid_shard, 2}, {2, Strategy::hybrid_shard, 1},
                          {3, Strategy::hybrid_shard, 3}};

std::string text_of(const Layout& layout) {
  return std::to_string(layout.ranks) + " ranks, " + to_string(layout.strategy) + " " +
         std::to_string(layout.group_size);
}

/// A number of its own for every element of every tensor that a checkpoint holds.
Tensor numbers(const std::string& tensor, int64_t begin, int64_t count) {
  return (at::arange(begin, begin + count, at::kDouble) + double(name_key(tensor, 0) % 1000)).sin().to(at::kFloat);
}

class TrainingState : public testing::Test {
 protected:
  void on_a_model(const Layout& layout, const std::function<void(ShardedModel&, ShardedOptimizer&, Channels&)>& body) {
    on_ranks(layout.ranks, [&](Channels& channels) {
      ModelConfig config;
      config.dim = 24;
      config.layers = 3;
      config.heads = config.kv_heads = 2;
      config.ffn_dim = 40;
      config.vocab_size = 33;
      config.future_tokens = 2;
      const Everything everything;
      ShardedModelRequest request;
      request.layout.model = &config;
      request.layout.adapter = &everything;
      request.options = {layout.strategy, at::kFloat, at::kCPU, layout.group_size};
      request.positions = 4;
      ShardedModel model(request, channels);
      ShardedOptimizer optimizer({}, model.trained_groups());
      body(model, optimizer, channels);
    });
  }

  /// Calls visit(name in a checkpoint, begin, part) for all that this rank holds.
  static void for_each(ShardedOptimizer& optimizer,
                       const std::function<void(const std::string&, int64_t, Tensor)>& visit) {
    for (ShardedOptimizer::State& state : optimizer.states())
      for (const auto& [prefix, flat] : {std::pair<std::string, Tensor>{"param/", state.group->master()},
                                         {"exp_avg/", state.exp_avg},
                                         {"exp_avg_sq/", state.exp_avg_sq}})
        state.group->for_each_part(flat, [&, prefix = prefix](const Placed& placed, int64_t begin, const Tensor& part) {
          visit(prefix + placed.spec.name, begin, part);
        });
  }

  std::filesystem::path save(const Layout& layout) {
    on_a_model(layout, [&](ShardedModel& model, ShardedOptimizer& optimizer, Channels& channels) {
      for_each(optimizer, [](const std::string& name, int64_t begin, Tensor part) {
        part.copy_(numbers(name, begin, part.numel()));
      });
      const std::map<std::string, Tensor> none;
      save_training_state({folder_.path(), 7, "hash", {}, {{"tokens", 5}}, &none}, model, optimizer, channels);
    });
    return folder_ / "step-000007";
  }

  test::TestFolder folder_;
};

TEST_F(TrainingState, SavedUnderEveryLayoutComesBackBitForBitUnderEveryOther) {
  for (const Layout& from : layouts) {
    const auto folder = save(from);
    const Manifest manifest = verify_checkpoint(folder);
    std::map<std::string, int64_t> held;
    for (const Slice& slice : manifest.slices) held[slice.tensor] += slice.end - slice.begin;
    EXPECT_EQ(held.at("param/output.weight"), 33 * 24) << "every element once, " << text_of(from);
    for (const Layout& to : layouts) {
      SCOPED_TRACE(text_of(from) + " -> " + text_of(to));
      on_a_model(to, [&](ShardedModel& model, ShardedOptimizer& optimizer, Channels&) {
        std::map<std::string, Tensor> none;
        load_training_state(folder, model, optimizer, none);
        for_each(optimizer, [](const std::string& name, int64_t begin, const Tensor& part) {
          EXPECT_TRUE(at::equal(part, numbers(name, begin, part.numel()))) << name;
        });
      });
    }
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace wmtp
