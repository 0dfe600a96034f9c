#include "model/torch/parameter_layout.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.hpp"

namespace wmtp {
namespace {

class Everything : public Adapter {
 public:
  bool trains(const std::string&) const override { return true; }
};

class BesideQueries : public LinearAdapter {
 public:
  bool trains(const std::string&) const override { return false; }
  std::vector<Param> declare(const Linear& layer) const override {
    if (!layer.name.ends_with("wq")) return {};
    return {{"lora_A", {2, layer.in}, Param::Init::uniform, 0.5}, {"lora_B", {layer.out, 2}}};
  }
  Tensor forward(const Linear&, const Tensor& x, LinearCall& call) const override { return call.base(x); }
  Tensor merged(const Linear&, const Tensor& weight, const std::vector<Tensor>&) const override { return weight; }
};

ModelConfig small() {
  ModelConfig model;
  model.dim = 8;
  model.layers = 4;
  model.heads = 4;
  model.kv_heads = 2;
  model.ffn_dim = 12;
  model.vocab_size = 17;
  model.future_tokens = 3;
  return model;
}

ModelSpec spec_of(const ModelConfig& model, const Adapter* adapter = nullptr) {
  ModelSpec spec;
  spec.model = &model;
  spec.adapter = adapter;
  return spec;
}

std::map<std::string, ParameterSpec> parameters_of(const ModelSpec& spec) {
  std::map<std::string, ParameterSpec> parameters;
  for (const UnitSpec& unit : model_units(spec))
    for (const ParameterSpec& parameter : unit.parameters)
      EXPECT_TRUE(parameters.emplace(parameter.name, parameter).second) << parameter.name << " occurs twice";
  return parameters;
}

TEST(Layout, TheSevenBillionModelHasMetasCount) {
  ModelConfig model;
  model.dim = 4096;
  model.layers = 32;
  model.heads = model.kv_heads = 32;
  model.ffn_dim = 11008;
  model.vocab_size = 32000;
  model.future_tokens = 4;
  int64_t count = 0;
  for (const auto& [name, parameter] : parameters_of(spec_of(model))) count += parameter.count();
  EXPECT_EQ(count, 6'738'415'616);
  EXPECT_EQ(num_parameters(model), 6'738'415'616);
}

TEST(Layout, ParametersHaveMetasNamesAndShapes) {
  const ModelConfig model = small();
  std::map<std::string, std::vector<int64_t>> expected{
      {"tok_embeddings.weight", {17, 8}}, {"norm.weight", {8}}, {"output.weight", {17, 8}}};
  for (const char* block : {"layers.0", "layers.1", "extra_heads.0", "extra_heads.1"}) {
    const std::string name(block);
    expected[name + ".attention_norm.weight"] = expected[name + ".ffn_norm.weight"] = {8};
    expected[name + ".attention.wq.weight"] = expected[name + ".attention.wo.weight"] = {8, 8};
    expected[name + ".attention.wk.weight"] = expected[name + ".attention.wv.weight"] = {4, 8};
    expected[name + ".feed_forward.w1.weight"] = expected[name + ".feed_forward.w3.weight"] = {12, 8};
    expected[name + ".feed_forward.w2.weight"] = {8, 12};
  }
  std::map<std::string, std::vector<int64_t>> found;
  for (const auto& [name, parameter] : parameters_of(spec_of(model))) found[name] = parameter.shape;
  EXPECT_EQ(found, expected);
}

TEST(Layout, UnitsAreInTheOrderOfTheForwardPass) {
  const ModelConfig model = small();
  std::vector<std::string> names;
  for (const UnitSpec& unit : model_units(spec_of(model))) names.push_back(unit.name);
  EXPECT_EQ(names, (std::vector<std::string>{"tok_embeddings", "layers.0", "layers.1", "extra_heads.0", "extra_heads.1",
                                             "norm", "output"}));
}

TEST(Layout, TheFirstHeadIsTheLastLayerAndTheOthersAreExtraHeads) {
  const ModelConfig model = small();
  EXPECT_EQ(head_block_name(model, 1), "layers.1");
  EXPECT_EQ(head_block_name(model, 2), "extra_heads.0");
  EXPECT_EQ(head_block_name(model, 3), "extra_heads.1");
}

TEST(Layout, AFrozenReferenceHasTheFirstHeadOnlyAndTrainsNothing) {
  const ModelConfig model = small();
  ModelSpec spec = spec_of(model);
  spec.heads = Heads::first;
  for (const auto& [name, parameter] : parameters_of(spec)) {
    EXPECT_FALSE(name.starts_with("extra_heads")) << name;
    EXPECT_FALSE(parameter.trains) << name;
  }
}

TEST(Layout, ResidualOutputsStartSmallerInDeeperModels) {
  const ModelConfig model = small();
  for (const auto& [name, parameter] : parameters_of(spec_of(model))) {
    if (name.ends_with("norm.weight")) {
      EXPECT_EQ(parameter.init.kind, Init::Kind::ones) << name;
      continue;
    }
    EXPECT_EQ(parameter.init.kind, Init::Kind::normal) << name;
    const bool writes = name.ends_with("wo.weight") || name.ends_with("w2.weight");
    EXPECT_DOUBLE_EQ(parameter.init.scale, writes ? 0.02 / std::sqrt(8.0) : 0.02) << name;
  }
}

TEST(Layout, NormsDecayOnlyIfConfigured) {
  const ModelConfig model = small();
  const Everything everything;
  ModelSpec spec = spec_of(model, &everything);
  for (const auto& [name, parameter] : parameters_of(spec)) {
    EXPECT_EQ(parameter.decays, !name.ends_with("norm.weight")) << name;
    EXPECT_TRUE(parameter.trains) << name;
  }
  spec.optimizer.decay_norms = true;
  for (const auto& [name, parameter] : parameters_of(spec)) EXPECT_TRUE(parameter.decays) << name;
}

TEST(Layout, MuonUpdatesTheMatricesOfBlocks) {
  const ModelConfig model = small();
  const Everything everything;
  ModelSpec spec = spec_of(model, &everything);
  for (const auto& [name, parameter] : parameters_of(spec)) EXPECT_FALSE(parameter.orthogonalizes) << name;
  spec.optimizer.kind = OptimizerKind::muon;
  for (const auto& [name, parameter] : parameters_of(spec))
    EXPECT_EQ(parameter.orthogonalizes, is_in_block(name) && !name.ends_with("norm.weight")) << name;
}

std::string refusal_of(const ModelSpec& spec) {
  try {
    model_units(spec);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::usage);
    return error.what();
  }
  return "";
}

TEST(Layout, MuonIsRefusedWhereItWouldUpdateNoMatrix) {
  const ModelConfig model = small();
  const BesideQueries beside;
  ModelSpec spec = spec_of(model, &beside);
  EXPECT_EQ(refusal_of(spec), "");
  spec.optimizer.kind = OptimizerKind::muon;
  const std::string text = refusal_of(spec);
  EXPECT_TRUE(text.starts_with("[optimizer] name = \"muon\": the adapter trains no matrix of a block")) << text;
  spec.trained_parts.names = {"layers.0.attention.wo.weight"};
  EXPECT_EQ(refusal_of(spec), "");
}

TEST(Layout, APatternThatMatchesNothingIsQuotedOnce) {
  const ModelConfig model = small();
  const Everything everything;
  ModelSpec spec = spec_of(model, &everything);
  spec.optimizer.groups = {{"*bias", 1, {}}};
  std::string text = refusal_of(spec);
  EXPECT_TRUE(text.starts_with("[[optimizer.groups]] match = \"*bias\" matches no trained parameter")) << text;
  spec.trained_parts.names = {"*bias"};
  text = refusal_of(spec);
  EXPECT_TRUE(text.starts_with("[adapter] train: \"*bias\" matches no parameter")) << text;
}

TEST(Layout, TheFirstGroupThatMatchesSetsAParametersSettings) {
  const ModelConfig model = small();
  const Everything everything;
  ModelSpec spec = spec_of(model, &everything);
  spec.optimizer.groups = {{"layers.0.*", 0.5, {}}, {"*norm.weight", 2, 0.25}};
  const auto parameters = parameters_of(spec);
  EXPECT_EQ(parameters.at("layers.0.attention_norm.weight").lr_scale, 0.5);
  EXPECT_FALSE(parameters.at("layers.0.attention_norm.weight").weight_decay);
  EXPECT_EQ(parameters.at("norm.weight").lr_scale, 2);
  EXPECT_EQ(parameters.at("norm.weight").weight_decay, 0.25);
  EXPECT_EQ(parameters.at("layers.1.attention.wq.weight").lr_scale, 1);
  spec.optimizer.groups.push_back({"layers.0.attention.wq.weight", 3, {}});
  EXPECT_THROW(model_units(spec), Error) << "it is always preceded by the first";
}

TEST(Layout, AnEmbeddingThatHeadsReadIsInTheFirstSectionAndInTheLastWhichCountsIt) {
  ModelConfig model = small();
  const Everything everything;
  const auto sections_with_embedding = [&](Heads heads) {
    ModelSpec spec = spec_of(model, &everything);
    spec.heads = heads;
    std::map<int64_t, bool> counts;  // by section
    for (const int64_t index : {0, 1}) {
      const std::vector<UnitSpec> units = section_units(model_units(spec), spec, {index, 2});
      for (const UnitSpec& unit : units) {
        EXPECT_TRUE(unit.name == "tok_embeddings" || !unit.is_second_twin) << unit.name;
        if (unit.name == "tok_embeddings") counts[index] = !unit.is_second_twin;
      }
      if (!counts.contains(index)) continue;
      EXPECT_EQ(units.front().name, "tok_embeddings") << "in the order of the forward pass";
    }
    return counts;
  };
  const std::map<int64_t, bool> alone{{0, true}}, twins{{0, false}, {1, true}};
  EXPECT_EQ(sections_with_embedding(Heads::all), alone);
  model.tie_word_embeddings = true;
  EXPECT_EQ(sections_with_embedding(Heads::all), twins);
  EXPECT_EQ(sections_with_embedding(Heads::first), twins);
  EXPECT_EQ(sections_with_embedding(Heads::none), alone);
  model.tie_word_embeddings = false;
  model.future_heads = FutureHeads::chained;
  EXPECT_EQ(sections_with_embedding(Heads::all), twins);
  EXPECT_EQ(sections_with_embedding(Heads::first), alone);
}

std::set<std::string> trained(const ModelSpec& spec) {
  std::set<std::string> names;
  for (const auto& [name, parameter] : parameters_of(spec))
    if (parameter.trains) names.insert(name);
  return names;
}

TEST(Layout, OnlyTheLastBlocksAndNamedParametersTrain) {
  const ModelConfig model = small();  // a trunk block and three heads
  const Everything everything;
  ModelSpec spec = spec_of(model, &everything);
  spec.trained_parts.last_blocks = 2;
  for (const std::string& name : trained(spec)) EXPECT_TRUE(name.starts_with("extra_heads.")) << name;
  EXPECT_EQ(trained(spec).size(), 2 * 9u);
  spec.trained_parts.last_blocks = 3;
  EXPECT_EQ(trained(spec).count("layers.1.attention.wq.weight"), 1u);
  EXPECT_EQ(trained(spec).count("layers.0.attention.wq.weight"), 0u);
  spec.trained_parts = {0, {"norm.weight", "layers.?.attention.w[qk].*"}};
  EXPECT_EQ(trained(spec),
            (std::set<std::string>{"layers.0.attention.wk.weight", "layers.0.attention.wq.weight",
                                   "layers.1.attention.wk.weight", "layers.1.attention.wq.weight", "norm.weight"}));
  spec.trained_parts.names = {"layers.9.*"};
  EXPECT_THROW(model_units(spec), Error);
}

TEST(Layout, TheLastBlockOfSharedHeadsIsTheirs) {
  ModelConfig model = small();
  model.future_heads = FutureHeads::shared;
  const Everything everything;
  ModelSpec spec = spec_of(model, &everything);
  spec.trained_parts.last_blocks = 1;
  for (const std::string& name : trained(spec)) EXPECT_TRUE(name.starts_with("extra_heads.0.")) << name;
  EXPECT_EQ(trained(spec).size(), 12u);
  spec.trained_parts.last_blocks = 2;
  EXPECT_EQ(trained(spec).count("layers.1.attention.wq.weight"), 1u);
  EXPECT_EQ(trained(spec).count("layers.0.attention.wq.weight"), 0u);
}

TEST(Layout, TheLastBlocksOfAValueModelAreThoseOfItsTrunk) {
  const ModelConfig model = small();
  const Everything everything;
  ModelSpec spec = spec_of(model, &everything);
  spec.heads = Heads::none;
  spec.trained_parts.last_blocks = 1;
  EXPECT_EQ(trained(spec).count("layers.0.attention.wq.weight"), 1u);
  EXPECT_EQ(trained(spec).count("tok_embeddings.weight"), 0u);
}

TEST(Layout, ChosenParametersTrainBesideAnAdapter) {
  const ModelConfig model = small();
  const BesideQueries adapter;
  ModelSpec spec = spec_of(model, &adapter);
  const size_t declared = trained(spec).size();
  spec.trained_parts.names = {"norm.weight", "layers.0.attention.wo.weight"};
  const std::set<std::string> names = trained(spec);
  EXPECT_EQ(names.size(), declared + 2);
  EXPECT_TRUE(names.contains("norm.weight") && names.contains("layers.0.attention.wq.lora_A"));
}

TEST(Layout, AChosenParameterThatTheAdapterChangesIsRefusedByName) {
  const ModelConfig model = small();
  const BesideQueries adapter;
  ModelSpec spec = spec_of(model, &adapter);
  spec.trained_parts.names = {"extra_heads.*", "layers.*.wk.weight"};
  const std::string text = refusal_of(spec);
  EXPECT_TRUE(
      text.starts_with("[adapter] train and train_last choose parameters that the adapter changes already: "
                       "extra_heads.0.attention.wq.weight and extra_heads.1.attention.wq.weight; choose"))
      << text;
}

TEST(Layout, AnAdapterChecksItsOptionsAgainstAllLinearLayers) {
  class Checks : public BesideQueries {
   public:
    void check(const std::vector<Linear>& layers) const override {
      EXPECT_EQ(layers.size(), 4 * 7u);
      EXPECT_EQ(layers.front().name, "layers.0.attention.wq");
      throw Error(ExitStatus::usage, "no such layer");
    }
  };
  const ModelConfig model = small();
  const Checks adapter;
  EXPECT_EQ(refusal_of(spec_of(model, &adapter)), "no such layer");
}

TEST(Layout, AdapterParametersAreInASeparateUnitAndTrain) {
  const ModelConfig model = small();
  const BesideQueries adapter;
  const auto units = model_units(spec_of(model, &adapter));
  ASSERT_EQ(units.back().name, "adapter");
  std::set<std::string> names;
  for (const ParameterSpec& parameter : units.back().parameters) {
    names.insert(parameter.name);
    EXPECT_TRUE(parameter.trains) << parameter.name;
  }
  EXPECT_EQ(names.size(), 8U);
  EXPECT_EQ(names.count("layers.0.attention.wq.lora_A"), 1U);
  EXPECT_EQ(names.count("extra_heads.1.attention.wq.lora_B"), 1U);
  const ParameterSpec a = parameters_of(spec_of(model, &adapter)).at("layers.0.attention.wq.lora_A");
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 8}));
  EXPECT_EQ(a.init.kind, Init::Kind::uniform);
  EXPECT_DOUBLE_EQ(a.init.scale, 0.5);
}

TEST(Layout, AdapterParametersHaveTheirOptimizerSettings) {
  class Declares : public LinearAdapter {
   public:
    explicit Declares(Param param) : param_(std::move(param)) {}
    bool trains(const std::string&) const override { return false; }
    std::vector<Param> declare(const Linear& layer) const override {
      return layer.name == "layers.0.attention.wk" ? std::vector<Param>{param_} : std::vector<Param>{};
    }

    Tensor forward(const Linear&, const Tensor& x, LinearCall& call) const override { return call.base(x); }
    Tensor merged(const Linear&, const Tensor& weight, const std::vector<Tensor>&) const override { return weight; }

   private:
    Param param_;
  };
  const ModelConfig model = small();
  const Declares norms({"magnitude", {1, 4}, Param::Init::row_norms, 0, 2.5, false});
  const ParameterSpec spec = model_units(spec_of(model, &norms)).back().parameters.at(0);
  EXPECT_EQ(spec.name, "layers.0.attention.wk.magnitude");
  EXPECT_EQ(adapted_weight(spec.name), "layers.0.attention.wk.weight");
  EXPECT_EQ(spec.init.kind, Init::Kind::row_norms);
  EXPECT_EQ(spec.lr_scale, 2.5);
  EXPECT_FALSE(spec.decays);
}

TEST(Layout, ValueHeadsAreComputedInSinglePrecision) {
  const ModelConfig model = small();
  ModelSpec spec = spec_of(model);
  spec.value_heads = {{"return"}};
  const auto units = model_units(spec);
  ASSERT_EQ(units.back().name, "value_heads");
  EXPECT_TRUE(units.back().always_fp32);
  const auto parameters = parameters_of(spec);
  EXPECT_EQ(parameters.at("value_heads.return.0.weight").shape, (std::vector<int64_t>{1, 8}));
  EXPECT_EQ(parameters.at("value_heads.return.0.bias").shape, (std::vector<int64_t>{1, 1}));
  spec.value_heads = {{"return", "cubic"}};
  EXPECT_THROW(model_units(spec), Error);
}

TEST(Layout, AnMlpValueHeadHasTwoHiddenLayersAndStartsAtZero) {
  const ModelConfig model = small();  // 8 wide
  ModelSpec spec = spec_of(model);
  spec.value_heads = {{"v", "mlp"}};
  const auto parameters = parameters_of(spec);
  EXPECT_EQ(parameters.at("value_heads.v.0.weight").shape, (std::vector<int64_t>{2, 8}));
  EXPECT_EQ(parameters.at("value_heads.v.1.weight").shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(parameters.at("value_heads.v.2.weight").shape, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(parameters.at("value_heads.v.1.bias").shape, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(parameters.at("value_heads.v.0.weight").init.kind, Init::Kind::uniform);
  EXPECT_EQ(parameters.at("value_heads.v.2.weight").init.kind, Init::Kind::zeros);
  EXPECT_TRUE(parameters.at("value_heads.v.2.weight").decays);
  EXPECT_FALSE(parameters.at("value_heads.v.0.bias").decays);
}

TEST(Layout, AValueModelHasNeitherHeadsNorOutputLayer) {
  const ModelConfig model = small();
  ModelSpec spec = spec_of(model);
  spec.heads = Heads::none;
  spec.value_heads = {{"v"}};
  for (const UnitSpec& unit : model_units(spec)) {
    EXPECT_NE(unit.name, "output");
    EXPECT_NE(unit.name, head_block_name(model, 1));
    EXPECT_FALSE(unit.name.starts_with("extra_heads")) << unit.name;
  }
}

}  // namespace
}  // namespace wmtp
