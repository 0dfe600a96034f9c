// The core's list of a model's tensors equals the tensors that the engine builds.
#include "model/model_tensors.hpp"

#include <gtest/gtest.h>

#include <map>

#include "model/torch/parameter_layout.hpp"

namespace wmtp {

TEST(ModelTensors, NamesAndShapesEqualTheLayout) {
  ModelConfig model;
  model.dim = 8;
  model.layers = 5;
  model.heads = 4;
  model.kv_heads = 2;
  model.ffn_dim = 12;
  model.vocab_size = 20;
  for (const int64_t future_tokens : {1, 3, 5}) {
    model.future_tokens = future_tokens;
    model.qkv_bias = future_tokens > 1;
    model.o_bias = future_tokens > 3;
    model.tie_word_embeddings = future_tokens > 3;
    model.future_heads = future_tokens > 3 ? FutureHeads::chained : FutureHeads::parallel;
    ModelSpec spec;
    spec.model = &model;
    std::map<std::string, std::vector<int64_t>> wanted, found;
    for (const UnitSpec& unit : model_units(spec))
      for (const ParameterSpec& parameter : unit.parameters) wanted[parameter.name] = parameter.shape;
    for (const ModelTensor& tensor : model_tensors(model)) found[tensor.name] = tensor.shape;
    EXPECT_EQ(found, wanted) << future_tokens;
  }
}

}  // namespace wmtp
