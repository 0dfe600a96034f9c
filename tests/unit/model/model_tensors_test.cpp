#include "model/model_tensors.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "support/test_folder.hpp"

namespace wmtp::test {
namespace {

ModelConfig grouped() {
  ModelConfig model;
  model.dim = 8;
  model.layers = 4;
  model.heads = 4;
  model.kv_heads = 2;
  model.ffn_dim = 12;
  model.vocab_size = 20;
  model.future_tokens = 3;
  return model;
}

}  // namespace

TEST(ModelTensors, MayBeZeroIfTheyAreBiasesOrAnInitializationBeginsWithZeros) {
  ModelConfig model = grouped();
  model.qkv_bias = true;
  std::set<std::string> names;
  for (const ModelTensor& tensor : model_tensors(model))
    if (tensor.may_be_zero() && (tensor.unit() == "layers.0" || !is_in_block(tensor.name))) names.insert(tensor.name);
  EXPECT_EQ(names, (std::set<std::string>{"layers.0.attention.wq.weight", "layers.0.attention.wq.bias",
                                          "layers.0.attention.wk.bias", "layers.0.attention.wv.bias",
                                          "layers.0.attention.wo.weight", "layers.0.feed_forward.w2.weight",
                                          "output.weight"}));
}

TEST(ModelTensors, OnlyTheTrunkAndHeadOneHaveHuggingFaceNames) {
  std::set<std::string> names;
  int of_other_heads = 0;
  for (const ModelTensor& tensor : model_tensors(grouped())) {
    EXPECT_EQ(tensor.hf_name.empty(), tensor.name.starts_with("extra_heads.")) << tensor.name;
    if (tensor.hf_name.empty()) {
      ++of_other_heads;
    } else {
      EXPECT_TRUE(names.insert(tensor.hf_name).second) << tensor.hf_name;
    }
  }
  EXPECT_EQ(of_other_heads, 2 * 9);
  EXPECT_EQ(names.size(), 2u * 9 + 3);
  for (const char* name : {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight",
                           "model.layers.1.input_layernorm.weight", "model.layers.1.post_attention_layernorm.weight",
                           "model.layers.0.self_attn.o_proj.weight", "model.layers.0.mlp.gate_proj.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(ModelTensors, CountTheParameters) {
  // A block: wq, wo 64 each, wk, wv 32 each, w1..w3 96 each, two norms of 8; then embedding, output and the last norm.
  EXPECT_EQ(num_parameters(grouped()), 4 * (2 * 64 + 2 * 32 + 3 * 96 + 2 * 8) + 2 * 20 * 8 + 8);
}

TEST(ModelTensors, AChainedHeadHasTwoMoreNormsAndAProjection) {
  ModelConfig model = grouped();
  const int64_t parallel = num_parameters(model);
  model.future_heads = FutureHeads::chained;
  EXPECT_EQ(num_parameters(model), parallel + 2 * (2 * 8 + 8 * 16));
  std::map<std::string, std::vector<int64_t>> more;
  for (const ModelTensor& tensor : model_tensors(model)) {
    if (!is_chain_tensor(tensor.name)) continue;
    more[tensor.name] = tensor.shape;
    EXPECT_TRUE(tensor.hf_name.empty()) << tensor.name;
    EXPECT_EQ(tensor.unit(), tensor.name.substr(0, std::string("extra_heads.0").size()));
  }
  EXPECT_EQ(more, (std::map<std::string, std::vector<int64_t>>{{"extra_heads.0.hnorm.weight", {8}},
                                                               {"extra_heads.0.enorm.weight", {8}},
                                                               {"extra_heads.0.eh_proj.weight", {8, 16}},
                                                               {"extra_heads.1.hnorm.weight", {8}},
                                                               {"extra_heads.1.enorm.weight", {8}},
                                                               {"extra_heads.1.eh_proj.weight", {8, 16}}}));
}

TEST(ModelTensors, SharedHeadsAreOneBlockOfAChainedHeadHoweverManyThereAre) {
  ModelConfig chained = grouped();
  chained.layers = 3;
  chained.future_tokens = 2;
  chained.future_heads = FutureHeads::chained;
  std::set<std::string> wanted, found;
  for (const ModelTensor& tensor : model_tensors(chained)) wanted.insert(tensor.name);
  ModelConfig shared = chained;
  shared.layers = 6;
  shared.future_tokens = 5;
  shared.future_heads = FutureHeads::shared;
  for (const ModelTensor& tensor : model_tensors(shared)) EXPECT_TRUE(found.insert(tensor.name).second) << tensor.name;
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(num_parameters(shared), num_parameters(chained));
  EXPECT_EQ(block_names(shared), (std::vector<std::string>{"layers.0", "layers.1", "extra_heads.0"}));
  for (int64_t k = 2; k <= 5; ++k) EXPECT_EQ(head_block_name(shared, k), "extra_heads.0") << k;
}

TEST(ModelTensors, OnlyQueriesAndKeysAreRotatedEachWithItsNumberOfHeads) {
  for (const ModelTensor& tensor : model_tensors(grouped())) {
    const int64_t wanted = tensor.name.ends_with(".wq.weight") ? 4 : tensor.name.ends_with(".wk.weight") ? 2 : 0;
    EXPECT_EQ(tensor.rotary_heads, wanted) << tensor.name;
    if (tensor.name == "layers.0.attention.wk.weight") {
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{4, 8}));
      EXPECT_EQ(tensor.hf_name, "model.layers.0.self_attn.k_proj.weight");
    }
    if (tensor.name == "layers.0.feed_forward.w2.weight") {
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{8, 12}));
    }
  }
}

TEST(ModelTensors, NormsAfterHaveTheirNamesAndJointNormsTheRowsOfAllHeads) {
  ModelConfig model = grouped();
  model.post_norm = model.joint_qk_norm = true;
  std::map<std::string, ModelTensor> found;
  for (const ModelTensor& tensor : model_tensors(model)) found[tensor.name] = tensor;
  EXPECT_EQ(found["layers.0.attention_norm.weight"].hf_name, "model.layers.0.post_attention_layernorm.weight");
  EXPECT_EQ(found["layers.0.ffn_norm.weight"].hf_name, "model.layers.0.post_feedforward_layernorm.weight");
  const ModelTensor &query = found["layers.0.attention.q_norm.weight"],
                    &key = found["layers.0.attention.k_norm.weight"];
  EXPECT_EQ(query.shape, std::vector<int64_t>{model.heads * head_dim(model)});
  EXPECT_EQ(query.rotary_heads, model.heads);
  EXPECT_EQ(key.shape, std::vector<int64_t>{model.kv_heads * head_dim(model)});
  EXPECT_EQ(key.rotary_heads, model.kv_heads);
}

TEST(ModelTensors, EveryNthBlockHasNoRotationAndHeadsAreLikeTheFirst) {
  ModelConfig model = grouped();
  model.layers = 8;
  model.future_tokens = 3;  // head 1 is layers.5
  EXPECT_TRUE(has_rotation(model, "layers.1"));
  model.no_rope_layer_interval = 2;
  EXPECT_TRUE(has_rotation(model, "layers.0"));
  EXPECT_FALSE(has_rotation(model, "layers.1"));
  EXPECT_FALSE(has_rotation(model, "layers.5"));
  EXPECT_FALSE(has_rotation(model, "extra_heads.0"));
  EXPECT_FALSE(has_rotation(model, "extra_heads.1"));
  model.no_rope_layer_interval = 4;
  EXPECT_TRUE(has_rotation(model, "extra_heads.1"));
}

TEST(ModelTensors, BiasesOfQueriesAndKeysAreRotatedToo) {
  ModelConfig model = grouped();
  model.qkv_bias = model.o_bias = true;
  std::set<std::string> turned, others;
  for (const ModelTensor& tensor : model_tensors(model)) {
    if (!tensor.name.starts_with("layers.1.") || !tensor.name.ends_with(".bias")) continue;
    (tensor.rotary_heads > 0 ? turned : others).insert(tensor.hf_name);
    EXPECT_EQ(tensor.shape.size(), 1u) << tensor.name;
  }
  EXPECT_EQ(turned,
            (std::set<std::string>{"model.layers.1.self_attn.q_proj.bias", "model.layers.1.self_attn.k_proj.bias"}));
  EXPECT_EQ(others,
            (std::set<std::string>{"model.layers.1.self_attn.v_proj.bias", "model.layers.1.self_attn.o_proj.bias"}));
}

}  // namespace wmtp::test
