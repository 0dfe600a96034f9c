// Rules across keys, and plugin options.
#include <cmath>

#include "support/experiment_fixture.hpp"

namespace wmtp {
namespace {

using Rules = ExperimentFolder;
using PluginOptions = ExperimentFolder;

TEST_F(Rules, TakeTrainedPartsForEveryAdapter) {
  EXPECT_EQ(load(small, {"adapter.train_last=2"}).trained_parts.last_blocks, 2);
  expect_in_order(refused(small, {"adapter.train_last=7"}), {"found train_last 7, wanted at most [model] layers = 6"});
  EXPECT_EQ(load(small, {"adapter.train_last=4", "model.future_heads=shared"}).trained_parts.last_blocks, 4);
  expect_in_order(refused(small, {"adapter.train_last=5", "model.future_heads=shared"}),
                  {"found train_last 5, wanted at most [model] layers = 6 less 2, as heads 2, 3, ... share a block"});
  const Experiment beside_lora = load(small, {"adapter.plugin=lora", "adapter.train=[\"norm.weight\"]"});
  EXPECT_EQ(beside_lora.trained_parts.names, std::vector<std::string>{"norm.weight"});
}

TEST_F(Rules, ReadGroupsOfParameters) {
  const std::string groups =
      "[[optimizer.groups]]\nmatch = \"*norm.weight\"\nlr_scale = 2\n[[optimizer.groups]]\nmatch = \"layers.0.*\"\n"
      "weight_decay = 0\n";
  const Experiment e = load(small + groups);
  EXPECT_EQ(e.optimizer.groups, (std::vector<OptimizerGroup>{{"*norm.weight", 2, {}}, {"layers.0.*", 1, 0.0}}));
  expect_in_order(
      refused(small + with(groups, "match = \"*norm.weight\"", "lr = 1")),
      {"a.toml:15:1: [optimizer] groups: a table lacks match", "a.toml:16:1: [optimizer] groups: unknown key \"lr\"",
       "known keys: match, lr_scale and weight_decay"});
  expect_in_order(refused(small + with(groups, "lr_scale = 2", "lr_scale = -1")),
                  {"a.toml:17:12: [optimizer] groups.lr_scale: found the integer -1, wanted a number at least 0"});
}

TEST_F(Rules, CheckTheShapeOfTheModel) {
  expect_in_order(refused(small, {"model.heads=5"}),
                  {"--set model.heads=5: found 5 heads for dim 64, wanted a divisor"});
  expect_in_order(refused(small, {"model.heads=64"}), {"dim / heads is 1, wanted an even number"});
  expect_in_order(refused(small, {"model.kv_heads=3"}), {"found 3 kv_heads for 4 heads"});
  expect_in_order(refused(small, {"model.layers=3"}), {"found 3 layers for 4 future_tokens"});
  EXPECT_EQ(num_trunk_blocks(load(small, {"model.layers=4"}).model), 0);
  refused(small, {"model.future_tokens=0"});
}

TEST_F(Rules, ChainOnlySeveralHeads) {
  EXPECT_EQ(load(small).model.future_heads, FutureHeads::parallel);
  EXPECT_EQ(load(small, {"model.future_heads=chained"}).model.future_heads, FutureHeads::chained);
  expect_in_order(refused(small, {"model.future_heads=chained", "model.future_tokens=1"}),
                  {"future_heads has no effect with future_tokens = 1", "remove it"});
  EXPECT_EQ(load(small, {"model.future_heads=shared"}).model.future_heads, FutureHeads::shared);
  expect_in_order(refused(small, {"model.future_heads=shared", "model.future_tokens=1"}),
                  {"future_heads has no effect with future_tokens = 1", "remove it"});
  expect_in_order(refused(small, {"model.future_heads=serial"}),
                  {"wanted one of \"parallel\", \"chained\" and \"shared\""});
}

TEST_F(Rules, AllowOneKindOfNormOfQueriesAndKeys) {
  EXPECT_TRUE(load(small, {"model.joint_qk_norm=true"}).model.joint_qk_norm);
  expect_in_order(refused(small, {"model.joint_qk_norm=true", "model.qk_norm=true"}),
                  {"[model] found qk_norm and joint_qk_norm, wanted one of them"});
}

TEST_F(Rules, GiveEachRopeScalingItsOwnKeys) {
  const std::string scaled = small + "[model.rope_scaling]\n";
  const std::string llama3 =
      "rope_type = \"llama3\"\nfactor = 8\nlow_freq_factor = 1\noriginal_max_position_embeddings = 8192\n";
  EXPECT_EQ(load(scaled + llama3 + "high_freq_factor = 4\n").model.rope_scaling,
            (RopeScaling{RopeType::llama3, 8, 1, 4, 8192}));
  EXPECT_EQ(load(scaled + "rope_type = \"linear\"\nfactor = 2.5\n").model.rope_scaling,
            (RopeScaling{RopeType::linear, 2.5}));
  EXPECT_FALSE(load(scaled + "rope_type = \"default\"\n").model.rope_scaling);
  EXPECT_FALSE(load(small).model.rope_scaling);
  expect_in_order(refused(scaled), {"[model.rope_scaling] lacks rope_type"});
  const std::string yarn = "rope_type = \"yarn\"\nfactor = 4\noriginal_max_position_embeddings = 8192\n";
  EXPECT_EQ(load(scaled + yarn).model.rope_scaling,
            (RopeScaling{RopeType::yarn, 4, 0, 0, 8192, 0.1 * std::log(4.0) + 1, 32, 1}));
  EXPECT_EQ(load(scaled + yarn + "attention_factor = 1\nbeta_fast = 8\nbeta_slow = 2\n").model.rope_scaling,
            (RopeScaling{RopeType::yarn, 4, 0, 0, 8192, 1, 8, 2}));
  expect_in_order(refused(scaled + yarn + "beta_fast = 1\n"),
                  {"found beta_fast 1.0, wanted more than beta_slow = 1.0"});
  expect_in_order(refused(scaled + yarn, {"model.rope_theta=1"}), {"found rope_theta 1.0, wanted more than 1"});
  expect_in_order(refused(scaled + yarn + "low_freq_factor = 1\n"),
                  {"low_freq_factor does not apply to rope_type \"yarn\""});
  expect_in_order(refused(scaled + "rope_type = \"yarn\"\n"),
                  {"rope_type \"yarn\" lacks factor and original_max_position_embeddings"});
  expect_in_order(refused(scaled + llama3 + "high_freq_factor = 4\nbeta_fast = 4\n"),
                  {"beta_fast does not apply to rope_type \"llama3\""});
  expect_in_order(refused(scaled + "rope_type = \"dynamic\"\n"), {"dynamic", "\"yarn\""});
  expect_in_order(refused(scaled + "rope_type = \"linear\"\n"), {"rope_type \"linear\" lacks factor"});
  expect_in_order(refused(scaled + llama3),
                  {"a.toml:16:13: [model.rope_scaling] rope_type \"llama3\" lacks high_freq"});
  expect_in_order(refused(scaled + llama3 + "high_freq_factor = 1\n"),
                  {"found high_freq_factor 1.0, wanted more than low_freq_factor = 1.0"});
  expect_in_order(refused(scaled + "rope_type = \"linear\"\nfactor = 2\nlow_freq_factor = 1\n"),
                  {"low_freq_factor does not apply to rope_type \"linear\""});
  expect_in_order(refused(scaled + "rope_type = \"default\"\nfactor = 2\n"),
                  {"factor does not apply to rope_type \"default\""});
}

TEST_F(Rules, AllowFlagsAndRopeScalingOfAReferenceToDiffer) {
  const std::string rho1 = with(with(small, "baseline", "rho1"), "dim = 64", "dim = 64\nqkv_bias = true") +
                           "[model.rope_scaling]\nrope_type = \"linear\"\nfactor = 2\n" +
                           "[reference]\nweights = \"run:base\"\n[reference.model]\n";
  const Experiment as_here = load(rho1);
  EXPECT_EQ(as_here.reference.model->rope_scaling, as_here.model.rope_scaling);
  EXPECT_TRUE(as_here.reference.model->qkv_bias);
  const Experiment other = load(
      rho1 + "qkv_bias = false\ntie_word_embeddings = true\n[reference.model.rope_scaling]\nrope_type = \"default\"\n");
  EXPECT_FALSE(other.reference.model->rope_scaling);
  EXPECT_FALSE(other.reference.model->qkv_bias);
  EXPECT_TRUE(other.reference.model->tie_word_embeddings);
  EXPECT_FALSE(other.model.tie_word_embeddings);
}

TEST_F(Rules, CheckTheSequenceLength) {
  expect_in_order(refused(small, {"train.sequence_length=4"}), {"found sequence_length 4 for 4 future_tokens"});
  expect_in_order(refused(small, {"model.max_sequence_length=31"}),
                  {"a.toml:14:19: found sequence_length 32, wanted at most [model] max_sequence_length"});
  EXPECT_NO_THROW(load(small, {"model.max_sequence_length=32"}));
}

TEST_F(Rules, RequireExactlyOneOfStepsAndEpochs) {
  expect_in_order(refused(with(small, "steps = 10\n", "")), {"a.toml:11:2: [train] lacks steps or epochs"});
  expect_in_order(refused(with(text_experiment, "steps = 10", "steps = 10\nepochs = 1")),
                  {"found both steps and epochs"});
  expect_in_order(refused(text_experiment, {"train.epochs=1", "train.steps=3"}), {"found both steps and epochs"});
  EXPECT_EQ(load(with(text_experiment, "steps = 10", "epochs = 1.5")).train.epochs, 1.5);
  expect_in_order(refused(with(small, "steps = 10", "epochs = 1")), {"random data is unlimited"});
}

TEST_F(Rules, RequireARisingOffsetForEachHead) {
  const auto refuses = [&](const std::string& offsets, const std::vector<std::string>& expected,
                           const std::vector<std::string>& more = {}) {
    std::vector<std::string> changes{"model.future_offsets=" + offsets};
    changes.insert(changes.end(), more.begin(), more.end());
    expect_in_order(refused(small, changes), expected);
  };
  EXPECT_EQ(load(small, {"model.future_offsets=[1, 3, 5, 7]"}).model.future_offsets,
            (std::vector<int64_t>{1, 3, 5, 7}));
  EXPECT_TRUE(load(small, {"model.future_offsets=[1, 2, 3, 4]"}).model.future_offsets.empty()) << "the default";
  refuses("[1, 3, 5]", {"found 3 future_offsets for 4 future_tokens, wanted one for each"});
  refuses("[2, 3, 5, 7]", {"found 2 as the first of future_offsets, wanted 1", "head 1 predicts the next token"});
  refuses("[1, 3, 3, 7]", {"found 3 after 3 in future_offsets, wanted rising numbers"});
  refuses("[1, 5, 3, 7]", {"found 3 after 5 in future_offsets"});
  refuses("[1, 3.0, 5, 7]", {"future_offsets: found the number 3.0, wanted a list of integers from 1 to 256"});
  refuses("[0, 1, 2, 257]", {"found the integer 0, wanted", "found the integer 257, wanted"});
  refuses("[]", {"found a list of length 0, wanted a list of integers"});
  refuses("3", {"found the integer 3, wanted a list of integers"});
  refuses("[1, 3, 5, 32]", {"found sequence_length 32 for future_offsets up to 32, wanted longer sequences"});
  EXPECT_EQ(last_offset(load(small, {"model.future_offsets=[1, 3, 5, 31]"}).model), 31);
}

TEST_F(Rules, LetOnlyParallelHeadsLeap) {
  for (const std::string kind : {"chained", "shared"}) {
    expect_in_order(refused(small, {"model.future_heads=" + kind, "model.future_offsets=[1, 3, 5, 7]"}),
                    {"found future_offsets [1, 3, 5, 7] for " + kind + " heads, wanted [1, 2, 3, 4]",
                     "remove it, or set future_heads = \"parallel\""});
    EXPECT_NO_THROW(load(small, {"model.future_heads=" + kind, "model.future_offsets=[1, 2, 3, 4]"}));
  }
}

TEST_F(Rules, RequireAWeightForEachHead) {
  EXPECT_EQ(load(small, {"train.head_weights=[1, 0.3, 0, 2]"}).train.head_weights, (std::vector{1.0, 0.3, 0.0, 2.0}));
  expect_in_order(refused(small, {"train.head_weights=[1, 0.3, 0.3]"}),
                  {"found 3 head_weights for 4 future_tokens, wanted one for each"});
  expect_in_order(refused(small, {"train.head_weights=[]"}), {"found 0 head_weights for 4 future_tokens"});
  expect_in_order(refused(small, {"train.head_weights=[0, 0, 0, 0]"}), {"head_weights are all 0", "set a weight"});
  expect_in_order(refused(small, {"train.head_weights=[1, -1, 1, inf]"}),
                  {"found the integer -1", "found the number inf"});
  expect_in_order(refused(with(small, "baseline", "critic"), {"train.head_weights=[1, 1, 1, 1]"}),
                  {"head_weights has no effect: pipeline \"critic\" trains no head that predicts tokens", "remove it"});
}

TEST_F(Rules, RequireWeightsForEachHeadAtPointsInTheOrderOfSteps) {
  const auto points = [](const std::string& text) {
    return std::vector<std::string>{"train.head_weights=[" + text + "]"};
  };
  const auto with_steps = [](std::vector<std::string> overrides, const std::string& steps) {
    overrides.push_back("train.steps=" + steps);
    return overrides;
  };
  const std::string half = "{step=1, weights=[1, 0.5, 0.5, 0.5]}", none = "{step=5, weights=[1, 0, 0, 0]}";
  const TrainConfig train = load(small, points(half + ", " + none + ", " + none)).train;
  EXPECT_EQ(train.head_weights, (std::vector{1.0, 0.5, 0.5, 0.5}));
  EXPECT_EQ(train.head_weights_later,
            (std::vector<HeadWeightsPoint>{{1, {1, 0.5, 0.5, 0.5}}, {5, {1, 0, 0, 0}}, {5, {1, 0, 0, 0}}}));
  expect_in_order(refused(small, points(half + ", {step=5, weights=[1, 1]}")),
                  {"found 2 head_weights at step 5 for 4 future_tokens"});
  expect_in_order(refused(small, points(half + ", {step=5, weights=[0, 0, 0, 0]}")),
                  {"head_weights at step 5 are all 0"});
  expect_in_order(refused(small, points(none + ", " + half)), {"found step 1 of head_weights after step 5", "order"});
  expect_in_order(refused(small, points(none + ", " + none + ", " + none)), {"found three head_weights at step 5"});
  const std::string later = "{step=20, weights=[1, 0, 0, 0]}";
  EXPECT_NO_THROW(load(small, with_steps(points(half + ", " + later), "10")));
  EXPECT_NO_THROW(load(small, with_steps(points(half + ", " + none + ", " + none), "5"))) << "a jump at the last step";
  expect_in_order(refused(small, with_steps(points(half + ", " + none + ", " + later), "5")),
                  {"head_weights at step 20 have no effect: the run ends at step 5", "remove the point"});
  expect_in_order(refused(small, points("{step=0, weights=[1, 1, 1, 1]}")), {"found the integer 0"});
  expect_in_order(refused(small, points("{weights=[1, 1, 1, 1]}")), {"a table lacks step"});
}

TEST_F(Rules, RequireHeadsToDetach) {
  EXPECT_TRUE(load(small, {"train.detach_heads=true"}).train.detach_heads);
  expect_in_order(refused(with(small, "baseline", "critic"), {"train.detach_heads=true"}),
                  {"detach_heads has no effect: pipeline \"critic\" trains no head that predicts tokens", "remove it"});
  expect_in_order(refused(small, {"model.future_tokens=1", "train.detach_heads=true"}),
                  {"detach_heads has no effect: found 1 future_tokens, wanted 2 or more"});
}

TEST_F(Rules, RequireHeadsThatMeetAtTheTrunkToCompareThemInLoggedSteps) {
  EXPECT_EQ(load(small, {"log.heads_every_steps=10", "log.every_steps=5"}).log.head_gradients_every, 10);
  expect_in_order(refused(small, {"log.heads_every_steps=-1"}), {"heads_every_steps", "-1"});
  expect_in_order(refused(small, {"log.heads_every_steps=10", "log.every_steps=4"}),
                  {"found 10, which is not a multiple of every_steps = 4"});
  expect_in_order(
      refused(with(small, "baseline", "critic"), {"log.heads_every_steps=10"}),
      {"heads_every_steps has no effect: pipeline \"critic\" trains no head that predicts tokens", "remove it"});
  expect_in_order(refused(small, {"log.heads_every_steps=10", "train.detach_heads=true"}),
                  {"heads_every_steps has no effect with train.detach_heads", "remove one of them"});
}

TEST_F(Rules, RequireATokenizerAndTokenHeadsForPrompts) {
  const std::string& text = text_experiment;
  EXPECT_EQ(load(text, {R"(log.prompts=["a", "b"])"}).log.prompts, (std::vector<std::string>{"a", "b"}));
  expect_in_order(refused(small, {R"(log.prompts=["a"])"}),
                  {"prompts requires a tokenizer, which data of kind \"random\" lacks", "remove it"});
  expect_in_order(refused(text, {R"(log.prompts=["a", ""])"}),
                  {"found an empty prompt, wanted at least one character"});
  expect_in_order(refused(with(small, "baseline", "critic"), {R"(log.prompts=["a"])"}),
                  {"prompts has no effect: pipeline \"critic\" trains no head that predicts tokens", "remove it"});
}

TEST_F(Rules, RequireTheProfiledStepWithinTheRun) {
  EXPECT_EQ(load(small, {"log.profile_step=10"}).log.profile_step, 10);
  expect_in_order(refused(small, {"log.profile_step=11"}),
                  {"found profile_step 11, wanted at most [train] steps = 10"});
  expect_in_order(refused(small, {"log.profile_step=-1"}), {"profile_step", "-1"});
}

TEST_F(Rules, RequireAWarmUpShorterThanTheRun) {
  expect_in_order(refused(small, {"schedule.warmup_steps=10"}),
                  {"found 10 warmup_steps, wanted less than [train] steps = 10"});
  EXPECT_NO_THROW(load(small, {"schedule.warmup_steps=9"}));
}

TEST_F(Rules, RequireStableStepsForWsd) {
  const std::string wsd = small + "[schedule]\nname = \"wsd\"\nwarmup_steps = 2\nstable_steps = 7\n";
  EXPECT_EQ(load(wsd).schedule.stable_steps, 7);
  expect_in_order(refused(wsd, {"schedule.stable_steps=8"}), {"leaves no steps for the decay", "[train] steps = 10"});
  expect_in_order(refused(with(wsd, "stable_steps = 7\n", "")), {"a.toml:", "\"wsd\" lacks stable_steps"});
  EXPECT_EQ(load(wsd, {"schedule.decay=cosine"}).schedule.decay, DecayShape::cosine);
}

TEST_F(Rules, RequireAShardGroupSizeThatDividesTheRanks) {
  const std::string hybrid = small + "[parallel]\nprocesses = 4\nstrategy = \"hybrid_shard\"\nshard_group_size = 2\n";
  EXPECT_EQ(load(hybrid).parallel.shard_group_size, 2);
  EXPECT_NO_THROW(load(hybrid, {"parallel.shard_group_size=1"}));
  EXPECT_NO_THROW(load(hybrid, {"parallel.shard_group_size=4"}));
  expect_in_order(refused(with(hybrid, "group_size = 2", "group_size = 3")),
                  {"a.toml:18:20: found shard_group_size 3 for 4 processes, wanted a divisor", "shard_group_size = 3"});
  expect_in_order(refused(hybrid, {"parallel.processes=6", "parallel.shard_group_size=4"}), {"for 6 processes"});
  expect_in_order(refused(with(hybrid, "shard_group_size = 2\n", "")),
                  {"a.toml:17:12: \"hybrid_shard\" lacks [parallel] shard_group_size"});
  expect_in_order(refused(with(hybrid, "hybrid_shard", "full_shard")),
                  {"a.toml:18:1: shard_group_size applies only to the strategy \"hybrid_shard\"", "remove it"});
  refused(hybrid, {"parallel.shard_group_size=0"});
  EXPECT_EQ(load(hybrid, {"parallel.shard_group_size=host"}).parallel.shard_group_size, host_shard_groups);
  EXPECT_NO_THROW(load(hybrid, {"parallel.processes=5", "parallel.shard_group_size=host"})) << "the hosts decide";
  expect_in_order(refused(hybrid, {"parallel.shard_group_size=hots"}),
                  {"wanted \"host\", or an integer from 1 to 65536", "did you mean \"host\"?"});
  expect_in_order(refused(hybrid, {"parallel.shard_group_size=2.5"}), {"wanted \"host\", or an integer"});
  expect_in_order(refused(hybrid, {"parallel.strategy=no_shard", "parallel.shard_group_size=host"}),
                  {"shard_group_size applies only to the strategy \"hybrid_shard\""});
  // Without `processes`, a launcher determines the number of ranks, which is checked later.
  const Experiment launched = load(with(hybrid, "processes = 4\n", ""));
  EXPECT_EQ(shard_group_misfit(launched, 6), "");
  EXPECT_THROW(check_groups(launched, 5), Error);
}

TEST_F(Rules, DivideSequencesOnlyIntoEqualPartsOfPositionsHeadsAndRanks) {
  const std::string divided = small + "[parallel]\nprocesses = 4\nsequence = 2\n";
  const Experiment e = load(divided);
  EXPECT_EQ(e.parallel.sequence, 2);
  EXPECT_EQ(data_ranks(e.parallel, 4), 2);
  EXPECT_THROW(check_groups(e, 3), Error);
  expect_in_order(refused(divided, {"parallel.processes=3"}), {"found sequence 2 for 3 processes, wanted a divisor"});
  expect_in_order(refused(divided, {"model.kv_heads=1"}), {"found sequence 2 for 1 kv_heads, wanted a divisor"});
  expect_in_order(refused(divided, {"train.sequence_length=63"}),
                  {"found sequence 2 for sequence_length 63, wanted a divisor"});
  expect_in_order(refused(divided, {"train.sequence_length=6", "model.future_tokens=4", "model.layers=5"}),
                  {"leaves 3 positions for each rank, wanted at least 4 for 4 future_tokens"});
  expect_in_order(refused(divided, {"train.sequence_length=12", "model.future_offsets=[1, 2, 3, 7]"}),
                  {"leaves 6 positions for each rank, wanted at least 7 for future_offsets up to 7"});
}

TEST_F(Rules, OfSections) {
  const std::string divided = small + "[parallel]\nprocesses = 4\npipeline = 2\n";
  const auto refuses = [&](const std::vector<std::string>& changes, const std::string& expected) {
    expect_in_order(refused(divided, changes), {expected});
  };
  const Experiment e = load(divided);
  EXPECT_EQ(data_ranks(e.parallel, 4), 2);
  EXPECT_NEAR(pipeline_bubble(2, 1), 0.5, 1e-12);
  EXPECT_NEAR(pipeline_bubble(4, 8), 3.0 / 11, 1e-12);
  EXPECT_THROW(check_groups(e, 3), Error);
  refuses({"parallel.processes=3"}, "found pipeline 2 for 3 processes, wanted a divisor");
  refuses({"parallel.pipeline=4", "model.layers=5", "model.future_tokens=4"},
          "found pipeline 4 for 1 trunk blocks (layers - future_tokens), wanted at most 2");
  EXPECT_EQ(load(divided, {"model.tie_word_embeddings=true", "model.future_heads=chained"}).parallel.pipeline, 2);
  refuses({"parallel.sequence=4"}, "found sequence 4 for 2 processes of each section (pipeline = 2), wanted a divisor");
  refuses({"parallel.strategy=hybrid_shard", "parallel.shard_group_size=4"},
          "found shard_group_size 4 for 2 processes of each section (pipeline = 2), wanted a divisor");
}

TEST_F(Rules, OfTensorParallelism) {
  const std::string divided = small + "[parallel]\nprocesses = 8\nsequence = 2\ntensor = 2\n";
  const auto refuses = [&](const std::string& change, const std::string& expected) {
    expect_in_order(refused(divided, {change}), {expected});
  };
  const Experiment e = load(divided, {"model.heads=4", "model.kv_heads=4"});
  EXPECT_EQ(e.parallel.tensor, 2);
  EXPECT_EQ(data_ranks(e.parallel, 8), 2);
  refuses("parallel.processes=6", "found sequence 2 x tensor 2 for 6 processes, wanted a divisor");
  refuses("model.kv_heads=2", "found sequence 2 x tensor 2 for 2 kv_heads, wanted a divisor");
  refuses("train.sequence_length=62", "found sequence 2 x tensor 2 for sequence_length 62, wanted a divisor");
  refuses("parallel.tensor=0", "wanted an integer from 1 to 65536");
  expect_in_order(refused(divided, {"model.heads=4", "model.kv_heads=4", "model.ffn_dim=63"}),
                  {"found tensor 2 for ffn_dim 63, wanted a divisor"});
  expect_in_order(refused(divided, {"model.heads=4", "model.kv_heads=4", "model.joint_qk_norm=true"}),
                  {"found tensor 2 with joint_qk_norm = true", "use sequence instead"});
  expect_in_order(
      refused(divided, {"model.heads=6", "model.kv_heads=6", "model.dim=48", "parallel.sequence=1", "parallel.tensor=3",
                        "parallel.processes=12", "parallel.strategy=hybrid_shard", "parallel.shard_group_size=4"}),
      {"found shard_group_size 4 for tensor 3, wanted a multiple"});
}

TEST_F(Rules, ShardGroupsOfHostsHaveTheRanksOfAHost) {
  const Experiment e =
      load(small + "[parallel]\nprocesses = 4\nstrategy = \"hybrid_shard\"\nshard_group_size = \"host\"\n");
  EXPECT_EQ(with_host_shard_groups(e, ranks_per_host(e, 2), 4).parallel.shard_group_size, 2);
  EXPECT_EQ(with_host_shard_groups(e, ranks_per_host(e, 1), 4).parallel.shard_group_size, 4);
  EXPECT_THROW(ranks_per_host(e, 3), Error);
  Experiment divided = e;
  divided.parallel.pipeline = 2;
  EXPECT_EQ(with_host_shard_groups(divided, 4, 4).parallel.shard_group_size, 2) << "the ranks of a section";
  Experiment of_one = e;
  of_one.parallel.shard_group_size = 1;
  EXPECT_EQ(with_host_shard_groups(of_one, 2, 4).parallel.shard_group_size, 1) << "a number is kept";
}

TEST_F(Rules, RequireAShardGroupSizeForAFrozenModel) {
  const std::string rho1 = with(small, "baseline", "rho1") +
                           "[reference]\nweights = \"run:b\"\n"
                           "strategy = \"hybrid_shard\"\n[parallel]\nprocesses = 4\n";
  expect_in_order(refused(rho1), {"\"hybrid_shard\" lacks [parallel] shard_group_size"});
  EXPECT_EQ(load(rho1 + "shard_group_size = 2\n").reference.strategy, Strategy::hybrid_shard);
}

TEST_F(Rules, AllowHalfPrecisionOfReductionsOnlyWithThatOfTheComputation) {
  const std::string rounded = small + "[parallel]\nprecision = \"bf16\"\nreduce = \"bf16\"\n";
  EXPECT_EQ(load(small).parallel.reduce, Precision::fp32);
  EXPECT_EQ(load(rounded).parallel.reduce, Precision::bf16);
  expect_in_order(refused(with(rounded, "precision = \"bf16\"", "precision = \"fp32\"")),
                  {"a.toml:17:10: found reduce \"bf16\" for precision \"fp32\"", "set precision = \"bf16\""});
  expect_in_order(refused(rounded, {"parallel.reduce=fp16"}),
                  {"found reduce \"fp16\" for precision \"bf16\", wanted \"fp32\" or \"bf16\": without a loss scale"});
  EXPECT_EQ(load(rounded, {"parallel.precision=fp16", "parallel.reduce=fp16"}).parallel.reduce, Precision::fp16);
}

TEST_F(Rules, FillAGlobalBatchByRanksOrByAccumulationButNotBoth) {
  const std::string global = with(small, "batch_size = 2", "batch_size = 2\nglobal_batch_size = 8");
  EXPECT_EQ(load(global).train.global_batch_size, 8);
  expect_in_order(refused(with(global, "global_batch_size = 8", "global_batch_size = 8\ngradient_accumulation = 2")),
                  {"found both global_batch_size and gradient_accumulation", "remove it"});
  expect_in_order(
      refused(global, {"parallel.processes=3"}),
      {"found global_batch_size 8 for 3 ranks x batch_size 2, wanted a multiple of 6: for example 6 or 12"});
  EXPECT_EQ(load(global, {"parallel.processes=4"}).parallel.processes, 4);
}

TEST_F(Rules, RefuseEpochsOfUnlimitedDataBetweenCheckpoints) {
  EXPECT_EQ(load(text_experiment, {"checkpoint.every_epochs=0.5"}).checkpoint.every_epochs, 0.5);
  expect_in_order(refused(small, {"checkpoint.every_epochs=1"}), {"random data is unlimited", "set every_steps"});
}

TEST_F(Rules, AllowOneWayToHoldOutText) {
  const std::string text = text_experiment + "[validation]\nshare = 0.1\n";
  EXPECT_EQ(load(text).validation.share, 0.1);
  expect_in_order(refused(text + "files = [\"a.py\"]\n"),
                  {"a.toml:20:1: found both files and share, wanted one of them"});
  for (const char* share : {"0", "0.6", "-0.1", "nan"})
    expect_in_order(refused(text, {std::string("validation.share=") + share}), {"validation.share", "0.5"});
  expect_in_order(refused(with(text, "\"text\"", "\"records\"")),
                  {"[validation] share does not apply to data of kind"});
  expect_in_order(refused(small, {"data.separator=\"--\""}), {"[data] separator does not apply to data of kind"});
  expect_in_order(refused(text_experiment, {"data.separator=\"\""}), {"separator"});
}

TEST_F(Rules, RefuseKeysOfOtherKindsOfData) {
  expect_in_order(refused(small, {"data.files=[\"a\"]"}),
                  {"[data] files does not apply to data of kind \"random\"", "kind text"});
  expect_in_order(refused(text_experiment, {"data.file=ids.bin"}),
                  {"[data] file does not apply to data of kind \"text\""});
  expect_in_order(refused(small, {"data.dtype=uint32"}), {"[data] dtype does not apply to"});
  expect_in_order(refused(small + "[validation]\nbatches = 2\n"),
                  {"[validation] does not apply to data of kind \"random\""});
  expect_in_order(refused(small + "[data.tokenizer]\nkind = \"byte\"\n"), {"[data.tokenizer] does not apply to"});
  expect_in_order(refused(small + "[data.arithmetic]\nproblems = 5\n"), {"[data.arithmetic] does not apply to"});
  expect_in_order(refused(with(text_experiment, "files = [\"corpus/**.py\"]\n[", "[")),
                  {"[data] lacks files, which kind \"text\""});
  expect_in_order(refused(small, {"data.kind=tokens"}), {"[data] lacks file or files, which kind \"tokens\""});
  expect_in_order(refused(small, {"data.kind=tokens", "data.file=a.bin", "data.files=[\"b.bin\"]"}),
                  {"found both file and files, wanted one of them"});
  refused(text_experiment, {"data.files=[]"});
  refused(text_experiment, {"data.files=[\"\"]"});
  refused(small, {"data.kind=tokens", "data.file=\"\""});
}

TEST_F(Rules, LetTokenIdsHaveOnlyTheTokenizerThatWroteThem) {
  const auto tokens = [](const std::string& table) {
    return with(small, "kind = \"random\"", "kind = \"tokens\"\nfiles = [\"*.bin\"]") + table;
  };
  const std::string prompts = "[log]\nprompts = [\"a\"]\n";
  const std::string own = "[data.tokenizer]\nkind = \"file\"\nfile = \"tokenizer.json\"\n";
  EXPECT_TRUE(load(tokens(own + prompts)).data.tokenizer.given);
  EXPECT_FALSE(load(tokens("")).data.tokenizer.given);
  expect_in_order(refused(tokens("[data.tokenizer]\nkind = \"byte\"\n")),
                  {"found a tokenizer of kind \"byte\" for token ids, wanted kind \"file\""});
  expect_in_order(refused(tokens(prompts)), {"prompts requires a tokenizer", "name the tokenizer that wrote the ids"});
}

TEST_F(Rules, TakeTheVocabularyFromTheTokenizer) {
  EXPECT_EQ(load(text_experiment).model.vocab_size, 512);
  EXPECT_EQ(load(text_experiment, {"model.vocab_size=512"}).model.vocab_size, 512);
  expect_in_order(refused(text_experiment, {"model.vocab_size=100"}),
                  {"found vocab_size 100, wanted 512, the size of the tokenizer"});
  expect_in_order(refused(with(text_experiment, "vocab_size = 512\n", "")), {"[data.tokenizer] lacks vocab_size"});
  expect_in_order(refused(with(small, "vocab_size = 100\n", "")), {"a.toml:4:2: [model] lacks vocab_size"});
}

TEST_F(Rules, DefaultToTheByteTokenizer) {
  const std::string bytes =
      with(text_experiment, "[data.tokenizer]\nkind = \"bpe\"\nfiles = [\"corpus/**.py\"]\nvocab_size = 512\n", "");
  EXPECT_EQ(load(bytes).model.vocab_size, 258);
  EXPECT_EQ(load(bytes).data.tokenizer.kind, TokenizerKind::byte);
  expect_in_order(refused(bytes + "[data.tokenizer]\nvocab_size = 300\n"),
                  {"found vocab_size 300, wanted 258, the size of the byte tokenizer"});
  expect_in_order(refused(bytes + "[data.tokenizer]\nfiles = [\"a\"]\n"),
                  {"files does not apply to kind \"byte\", which is not trained"});
}

TEST_F(Rules, RequireANameThatCanBeAFolder) {
  for (const std::string& name : std::vector<std::string>{"", "a/b", "..", "-x", "a b", std::string(65, 'a')}) {
    expect_in_order(refused(small, {"name=\"" + name + "\""}), {"name: found"});
  }
}

TEST_F(Rules, RequireAReferenceIfThePipelineReadsOne) {
  expect_in_order(refused(with(small, "baseline", "rho1")),
                  {"a.toml:3:10: pipeline \"rho1\" reads reference.loss, but there is no [reference]"});
  const std::string rho1 = with(small, "baseline", "rho1");
  EXPECT_EQ(load(rho1 + "[reference]\nweights = \"run:base\"\n").reference.weights, "run:base");
  expect_in_order(refused(rho1 + "[reference]\n"), {"a.toml:15:2: [reference] lacks experiment or weights"});
  expect_in_order(refused(small + "[reference]\nweights = \"run:base\"\n"), {"reads no reference"});
  write("b.toml", small);
  expect_in_order(refused(rho1 + "[reference]\nweights = \"run:base\"\nexperiment = \"b.toml\"\n"),
                  {"found both experiment and weights"});
}

TEST_F(Rules, CompleteTheShapeOfTheReference) {
  const std::string rho1 = with(small, "baseline", "rho1") + "[reference]\nweights = \"run:base\"\n[reference.model]\n";
  const Experiment e = load(rho1 + "dim = 128\nheads = 2\n");
  ASSERT_TRUE(e.reference.model);
  EXPECT_EQ(e.reference.model->dim, 128);
  EXPECT_EQ(e.reference.model->kv_heads, 2);
  EXPECT_EQ(e.reference.model->ffn_dim, 512);
  EXPECT_EQ(e.reference.model->layers, 6);
  EXPECT_EQ(e.reference.model->future_tokens, 4);
  EXPECT_EQ(e.reference.model->rope_theta, 10000.0);
  EXPECT_EQ(e.reference.model->max_sequence_length, 32);
  expect_in_order(refused(rho1 + "dim = 66\n"), {"found 4 heads for dim 66"});
  expect_in_order(refused(rho1 + "vocab_size = 7\n"), {"wanted the same vocabulary"});
  expect_in_order(refused(rho1 + "max_sequence_length = 8\n"),
                  {"found sequence_length 32, wanted at most [reference.model]"});
  expect_in_order(refused(rho1 + "weights = \"x\"\n"), {"unknown key \"weights\" in [reference.model]"});
  expect_in_order(refused(rho1 + "future_tokens = 3\n", {"reference.heads=own"}),
                  {"--set reference.heads",
                   "found heads \"own\" for [reference.model] future_tokens = 3, wanted at "
                   "least [model] future_tokens = 4"});
  EXPECT_EQ(load(rho1, {"model.future_heads=chained"}).reference.model->future_heads, FutureHeads::chained);
  EXPECT_EQ(load(rho1 + "future_heads = \"chained\"\n").reference.model->future_heads, FutureHeads::chained);
}

TEST_F(Rules, ReportNoConsequencesOfReportedErrors) {
  const std::string message = refused(small, {"model.heads=\"x\"", "train.sequence_length=1.5", "data.kind=txet"});
  size_t lines = 0;
  for (size_t at = 0; (at = message.find("^", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 3u) << message;
}

TEST_F(Rules, RequireAValueModelIfThePipelineReadsOne) {
  const std::string by_value = with(small, "\"baseline\"", "\"formula\"\nweight = \"value\"");
  expect_in_order(refused(by_value), {"a.toml:3:10: pipeline \"formula\" reads value.value, but there is no [value]",
                                      "add [value] with experiment = \"critic.toml\""});
  const Experiment e = load(by_value + "[value]\nweights = \"run:c\"\n[value.model]\ndim = 128\nheads = 2\n");
  EXPECT_EQ(e.value.model->dim, 128);
  EXPECT_EQ(e.value.model->layers, 6);
  expect_in_order(refused(by_value + "[value]\n"), {"a.toml:16:2: [value] lacks experiment or weights"});
  expect_in_order(refused(by_value + "[value]\nweights = \"run:c\"\n[value.model]\nvocab_size = 7\n"),
                  {"a.toml:19:14: [value.model] has 7 tokens", "wanted the same vocabulary"});
  expect_in_order(refused(small + "[value]\nweights = \"run:c\"\n"),
                  {"a.toml:15:2: pipeline \"baseline\" reads no value model"});
}

TEST_F(Rules, UseTheNeedsOfThePipelineWithItsOptions) {
  const std::string formula = with(small, "\"baseline\"", "\"formula\"\nweight = \"ce\"");
  const std::string reference = "[reference]\nweights = \"run:b\"\n";
  EXPECT_NO_THROW(load(formula));
  expect_in_order(refused(formula + reference), {"\"formula\" reads no reference with these options"});
  EXPECT_NO_THROW(load(formula + reference, {"pipeline.weight=ref"}));
  expect_in_order(refused(formula, {"pipeline.weight=ref"}), {"reads reference.loss, but there is no [reference]"});
  expect_in_order(
      refused(with(small, "baseline", "shuffled"), {"pipeline.inner.plugin=formula", "pipeline.inner.weight=ref"}),
      {"pipeline \"shuffled\" over \"formula\" reads reference.loss, but there is no [reference]"});
}

TEST_F(Rules, RequireRecordsAndAnEvenBatchForPairs) {
  const std::string critic = with(small, "baseline", "critic");
  expect_in_order(refused(critic), {"a.toml:10:8: pipeline \"critic\" needs pairs of a correct and an incorrect answer",
                                    "wanted kind \"records\""});
  expect_in_order(refused(critic, {"train.batch_size=3"}),
                  {"found batch_size 3, wanted an even number", "pipeline \"critic\" needs pairs"});
  EXPECT_NO_THROW(load(critic, {"train.batch_size=3", "pipeline.loss=lambda_return"}));
}

TEST_F(Rules, RefusePackingForPipelinesThatNeedPairsOrValuesOfWholeSequences) {
  const std::string critic = with(small, "baseline", "critic");
  expect_in_order(refused(critic, {"data.packing=true"}),
                  {"found packing, which does not work with pipeline \"critic\": it needs pairs of answers"});
  expect_in_order(refused(critic, {"data.packing=true", "pipeline.loss=lambda_return"}),
                  {"found packing, which does not work with pipeline \"critic\": it needs values of whole sequences"});
}

TEST_F(Rules, AllowOneSourceOfInitialWeights) {
  write("b.toml", small);
  const std::string both = with(small, "dim = 64\n", "dim = 64\nexperiment = \"b.toml\"\nweights = \"run:b\"\n");
  expect_in_order(refused(both), {"a.toml:7:1: found both experiment and weights"});
  EXPECT_TRUE(load(with(both, "run:b", "")).stage("model"));
}

TEST_F(Rules, DefaultTheValueHeadsLearningRateToTheModels) {
  EXPECT_EQ(load(small, {"optimizer.lr=0.25"}).optimizer.value_head_lr, 0.25);
  const std::string critic = with(small, "baseline", "critic\"\nloss = \"lambda_return");
  EXPECT_EQ(load(critic, {"optimizer.value_head_lr=0.5"}).optimizer.value_head_lr, 0.5);
  expect_in_order(refused(small, {"optimizer.value_head_lr=0"}), {"value_head_lr: found", "above 0"});
}

TEST_F(PluginOptions, MayBeRefusedByThePluginAtTheirPlace) {
  const std::string formula = with(small, "\"baseline\"", "\"formula\"\nweight = \"ce\"\nlow = 0.5");
  expect_in_order(refused(formula, {"pipeline.low=2"}), {"--set pipeline.low=2: [pipeline] low: above 1"});
  expect_in_order(refused(with(small, "baseline", "formula")), {"a.toml:2:2: [pipeline] weight: it must be given"});
  expect_in_order(refused(formula, {"pipeline.weight=\"\""}), {"[pipeline] weight: it must be given"});
  refused(formula, {"pipeline.weight=broken"}, ExitStatus::plugin);
}

TEST_F(PluginOptions, MayBeRefusedAtACharacter) {
  const auto message = [&](const std::string& value) {
    return refused(with(small, "\"baseline\"", "\"formula\"\nweight = " + value));
  };
  expect_in_order(message("\"1 - ?\""), {"a.toml:4:15: [pipeline] weight: unknown name \"??\"",
                                         "    weight = \"1 - ?\"\n", "    " + std::string(14, ' ') + "^"});
  expect_in_order(message("'1 - ?'"), {"a.toml:4:15:"});
  expect_in_order(message("\"\\u00e9\\t\\\"é ?\""), {"a.toml:4:23:"});
  expect_in_order(message("\"\"\"\n  1\n  - ?\"\"\""), {"a.toml:6:5:", "      - ?"});
  expect_in_order(message("\"\"\"1 \\\n    - ?\"\"\""), {"a.toml:5:7:"});
  expect_in_order(message("'''a\r\n?'''"), {"a.toml:5:1:"});
  expect_in_order(refused(with(small, "baseline", "formula"), {"pipeline.weight=1-?"}),
                  {"--set pipeline.weight=1-?: [pipeline] weight:", "    --set pipeline.weight=1-?\n",
                   "    " + std::string(24, ' ') + "^"});
  expect_in_order(
      refused(with(small, "baseline", "shuffled") + "[pipeline.inner]\nplugin = \"formula\"\nweight = \"?\"\n"),
      {"a.toml:17:11: [pipeline.inner] weight: unknown name"});
}

TEST_F(PluginOptions, OfAWrapperRequireAnInnerPlugin) {
  const std::string wrapper = with(small, "baseline", "shuffled");
  expect_in_order(refused(wrapper), {"a.toml:3:10: \"shuffled\" is a wrapper, but there is no [pipeline.inner]",
                                     "add [pipeline.inner] with plugin"});
  const Experiment e = load(wrapper, {"pipeline.inner.plugin=formula", "pipeline.inner.weight=ce"});
  ASSERT_TRUE(e.inner);
  EXPECT_EQ(e.inner->plugin, "formula");
  EXPECT_EQ(std::get<double>(e.inner->options.at("low")), 0.0);
  expect_in_order(refused(small + "[pipeline.inner]\nplugin = \"formula\"\nweight = \"ce\"\n"),
                  {"a.toml:15:11: pipeline \"baseline\" is not a wrapper", "remove [pipeline.inner]"});
  expect_in_order(refused(wrapper, {"pipeline.inner.plugin=shuffled"}),
                  {"found the wrapper \"shuffled\", wanted a weighting"});
  expect_in_order(refused(wrapper, {"pipeline.inner.plugin=critic"}), {"found the objective \"critic\""});
  expect_in_order(refused(wrapper + "[pipeline.inner]\nlow = 1\n"), {"a.toml:15:11: [pipeline.inner] lacks plugin"});
  expect_in_order(refused(wrapper, {"pipeline.inner.plugin=formula", "pipeline.inner.wieght=ce"}),
                  {"unknown option \"wieght\" of pipeline \"formula\"", "did you mean \"weight\"?"});
  expect_in_order(refused(wrapper, {"pipeline.inner=3"}), {"\"pipeline.inner\" is a table"});
  refused(wrapper, {"pipeline.inner.plugin=absent"}, ExitStatus::plugin);
}

TEST_F(PluginOptions, DoNotIncludeTheKeysOfTheTable) {
  const Experiment e = load(small, {"adapter.plugin=lora", "adapter.weights=\"run:l\""});
  EXPECT_EQ(e.adapter_weights, "run:l");
  EXPECT_EQ(e.adapter.options.count("weights"), 0u);
  expect_in_order(refused(small, {"adapter.weights=\"\""}), {"[adapter] weights"});
}

TEST_F(PluginOptions, AreCheckedByTheSchemaOfThePlugin) {
  const std::string rho1 = with(small, "baseline", "rho1") + "[reference]\nweights = \"run:base\"\n";
  const Experiment e = load(rho1, {"pipeline.keep=1", "adapter.plugin=lora", "adapter.targets=[\"wv\"]"});
  EXPECT_EQ(std::get<double>(e.pipeline.options.at("keep")), 1.0);
  EXPECT_EQ(std::get<std::string>(e.pipeline.options.at("mode")), "signed");
  EXPECT_EQ(std::get<int64_t>(e.adapter.options.at("rank")), 8);
  EXPECT_EQ(std::get<std::vector<std::string>>(e.adapter.options.at("targets")), std::vector<std::string>{"wv"});
  expect_in_order(refused(rho1, {"pipeline.kep=0.5"}),
                  {"unknown option \"kep\" of pipeline \"rho1\"", "did you mean \"keep\"?"});
  expect_in_order(refused(rho1, {"pipeline.keep=1.5"}),
                  {"[pipeline] keep: found the number 1.5, wanted a number from 0 to 1"});
  expect_in_order(refused(rho1, {"pipeline.keep=nan"}), {"[pipeline] keep: found the number nan"});
  expect_in_order(refused(rho1, {"pipeline.limit=nan"}), {"[pipeline] limit: found the number nan"});
  expect_in_order(refused(rho1, {"pipeline.mode=singed"}), {"did you mean \"signed\"?"});
  expect_in_order(refused(rho1, {"pipeline.per_rank=1"}), {"wanted true or false"});
  expect_in_order(refused(small, {"adapter.plugin=lora", "adapter.targets=[\"wx\"]"}),
                  {"found the string \"wx\", wanted a list of values from"});
  expect_in_order(refused(small, {"pipeline.keep=0.5"}),
                  {"unknown option \"keep\" of pipeline \"baseline\"", "it has no options"});
}

}  // namespace
}  // namespace wmtp
