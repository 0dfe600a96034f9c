// Keys of [model] that are taken from the folder of its weights.
#include "support/data_fixture.hpp"
#include "support/experiment_fixture.hpp"

namespace wmtp {
namespace {

/// As of a small Llama 3 with one head.
ModelConfig one_head() {
  ModelConfig model;
  model.dim = 64;
  model.layers = 16;
  model.heads = 8;
  model.kv_heads = 2;
  model.head_dim = 16;
  model.ffn_dim = 160;
  model.vocab_size = 258;
  model.future_tokens = 1;
  model.max_sequence_length = 4096;
  model.rope_theta = 500000;
  model.norm_eps = 1e-6;
  model.tie_word_embeddings = true;
  model.rope_scaling = RopeScaling{.rope_type = RopeType::linear, .factor = 4};
  return model;
}

class WeightsShape : public ExperimentFolder {
 protected:
  Experiment load_with(const std::string& model, const ReadWeightsShape& shape,
                       const std::vector<std::string>& overrides = {}) const {
    const std::string text = "name = \"x\"\n[pipeline]\nplugin = \"baseline\"\n[model]\n" + model +
                             "[data]\nkind = \"text\"\nfiles = [\"a\"]\n[train]\nsteps = 10\nbatch_size = 2\n"
                             "sequence_length = 32\n";
    LoadRequest request{write("a.toml", text), overrides, known_plugin, {}, asked_plugin};
    request.read_weights_shape = shape;
    return load_experiment(request);
  }
  Experiment load_from(const std::string& keys, const ModelConfig& theirs) const {
    return load_with("weights = \"llama\"\n" + keys, [&](const Experiment& e) {
      EXPECT_EQ(e.model.weights, "llama");
      EXPECT_EQ(e.resolve(e.model.weights), folder_ / "llama");
      return theirs;
    });
  }
  std::string refused_with(const std::string& keys, const ModelConfig& theirs) const {
    SCOPED_TRACE(keys);
    return error_of(ExitStatus::usage, [&] { load_from(keys, theirs); });
  }
};

TEST_F(WeightsShape, IsTakenFromTheFolderOfTheWeights) {
  ModelConfig wanted = one_head();
  wanted.weights = "llama";
  EXPECT_EQ(load_from("", one_head()).model, wanted);
}

TEST_F(WeightsShape, HasTheIdentityOfTheSameShapeGivenByKeys) {
  const std::string keys =
      "dim = 64\nlayers = 19\nheads = 8\nkv_heads = 2\nhead_dim = 16\nffn_dim = 160\nvocab_size = 258\n"
      "future_tokens = 4\nmax_sequence_length = 4096\nrope_theta = 500000\nnorm_eps = 1e-6\n"
      "tie_word_embeddings = true\nrope_scaling = {rope_type = \"linear\", factor = 4}\nnew_heads = \"copy\"\n";
  const Experiment taken = load_from("new_heads = \"copy\"\nfuture_tokens = 4\n", one_head());
  EXPECT_EQ(config_hash(taken, {}), config_hash(load_from(keys, one_head()), {}));
}

TEST_F(WeightsShape, HasTheOffsetsOfTheHeadsThatTheModelKeeps) {
  ModelConfig leaps = one_head();
  leaps.layers = 18;
  leaps.future_tokens = 3;
  leaps.future_offsets = {1, 3, 5};
  using Offsets = std::vector<int64_t>;
  EXPECT_EQ(load_from("", leaps).model.future_offsets, (Offsets{1, 3, 5}));
  EXPECT_EQ(load_from("", leaps).origins.at("model.future_offsets"), "weights");
  EXPECT_EQ(load_from("future_tokens = 2\n", leaps).model.future_offsets, (Offsets{1, 3}));
  EXPECT_EQ(load_from("future_tokens = 1\n", leaps).model.future_offsets, Offsets{});
  EXPECT_EQ(load_from("future_offsets = [1, 2, 3]\n", leaps).model.future_offsets, Offsets{}) << "heads learn another";
  EXPECT_EQ(load_from("future_offsets = [1, 4, 5]\n", leaps).model.future_offsets, (Offsets{1, 4, 5}));
  const std::string more = "future_tokens = 4\nnew_heads = \"copy\"\n";
  EXPECT_NE(refused_with(more, leaps)
                .find("found 4 future_tokens for the weights \"llama\", whose heads have future_offsets [1, 3, 5]"),
            std::string::npos);
  EXPECT_EQ(load_from(more + "future_offsets = [1, 3, 5, 9]\n", leaps).model.future_offsets, (Offsets{1, 3, 5, 9}));
  EXPECT_EQ(
      load_from("future_tokens = 2\nnew_heads = \"copy\"\nfuture_offsets = [1, 3]\n", one_head()).model.future_offsets,
      (Offsets{1, 3}));
}

TEST_F(WeightsShape, HasOneBlockForEachHeadOfTheExperiment) {
  EXPECT_EQ(load_from("future_tokens = 4\nnew_heads = \"copy\"\n", one_head()).model.layers, 19);
  const ModelConfig added = load_from("new_heads = \"new\"\n", one_head()).model;
  EXPECT_EQ(added.future_tokens, 4) << "the default without weights";
  EXPECT_EQ(added.layers, 19);
  ModelConfig chain = one_head();
  chain.layers = 18;
  chain.future_tokens = 3;
  chain.future_heads = FutureHeads::chained;
  const ModelConfig all = load_from("", chain).model;
  EXPECT_EQ(all.future_tokens, 3);
  EXPECT_EQ(all.layers, 18);
  EXPECT_EQ(all.future_heads, FutureHeads::chained);
  EXPECT_EQ(load_from("new_heads = \"copy\"\n", chain).model.future_tokens, 3) << "the weights have these heads";
  EXPECT_EQ(load_from("future_heads = \"parallel\"\n", chain).model.future_heads, FutureHeads::parallel);
  const ModelConfig first = load_from("future_tokens = 1\n", chain).model;
  EXPECT_EQ(first.layers, 16);
  EXPECT_EQ(first.future_heads, FutureHeads::parallel);
}

TEST_F(WeightsShape, RefusesKeysThatTheWeightsContradictWithBothValues) {
  const std::string message = refused_with(
      "dim = 128\nlayers = 16\nheads = 4\nkv_heads = 4\nffn_dim = 100\nvocab_size = 300\nhead_dim = 32\n"
      "qkv_bias = true\no_bias = true\nfuture_tokens = 4\nnew_heads = \"copy\"\n",
      one_head());
  expect_in_order(
      message,
      {"a.toml:6:7: found dim 128, wanted 64 as in the weights \"llama\"",
       "remove the key: its value is taken from the weights",
       "found layers 16, wanted 19: 15 trunk blocks as in the weights \"llama\", and one for each of 4 future tokens",
       "found heads 4, wanted 8", "found kv_heads 4, wanted 2", "found ffn_dim 100, wanted 160",
       "found vocab_size 300, wanted 258", "found head_dim 32, wanted 16", "found qkv_bias true, wanted false",
       "found o_bias true, wanted false"});
  EXPECT_EQ(message.find("divisor"), std::string::npos) << message;
}

TEST_F(WeightsShape, MayDifferInPositionsAndNorms) {
  const ModelConfig model = load_from(
                                "rope_theta = 10000\nnorm_eps = 1e-5\nmax_sequence_length = 64\nsliding_window = 16\n"
                                "rope_scaling = {rope_type = \"default\"}\n",
                                one_head())
                                .model;
  EXPECT_EQ(model.rope_theta, 10000);
  EXPECT_EQ(model.norm_eps, 1e-5);
  EXPECT_EQ(model.max_sequence_length, 64);
  EXPECT_EQ(model.sliding_window, 16);
  EXPECT_FALSE(model.rope_scaling);
}

TEST_F(WeightsShape, HasAtLeastTheSequencesOfTheRun) {
  ModelConfig shorter = one_head();
  shorter.max_sequence_length = 16;
  EXPECT_EQ(load_from("", shorter).model.max_sequence_length, 32);
}

TEST_F(WeightsShape, RefusesATokenizerWithAnotherVocabulary) {
  ModelConfig large = one_head();
  large.vocab_size = 128256;
  expect_in_order(refused_with("", large),
                  {"a.toml:4:2: found vocab_size 128256, wanted 258, the size of the tokenizer",
                   "set [data.tokenizer] kind = \"file\""});
}

TEST_F(WeightsShape, IsRequiredWhereTheWeightsStateNone) {
  const auto none = [](const Experiment&) { return std::nullopt; };
  for (const std::string weights : {"run:base", "llama.safetensors", ""}) {
    SCOPED_TRACE(weights);
    const std::string given = "weights = \"" + weights + "\"";
    expect_in_order(error_of(ExitStatus::usage, [&] { load_with("heads = 4\n" + given + "\n", none); }),
                    {"a.toml:4:2: [model] lacks dim and layers", given});
  }
  EXPECT_EQ(load_with("dim = 64\nlayers = 6\nheads = 4\nweights = \"run:base\"\n", none).model.layers, 6);
}

TEST_F(WeightsShape, ThatCannotBeReadIsReportedUnlessTheExperimentGivesItsOwn) {
  const auto broken = [](const Experiment&) -> std::optional<ModelConfig> {
    throw Error(ExitStatus::data, "llama/config.json: no");
  };
  error_of(ExitStatus::data, [&] { load_with("weights = \"llama\"\n", broken); });
  EXPECT_EQ(load_with("dim = 64\nlayers = 6\nheads = 4\nweights = \"llama\"\n", broken).model.layers, 6);
}

}  // namespace
}  // namespace wmtp
