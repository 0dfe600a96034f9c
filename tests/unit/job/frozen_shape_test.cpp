// Which heads of a reference are read: decided from a stage, from what its weights' folder states, or from the names of
// the tensors in a file.
#include "job/frozen_shape.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.hpp"
#include "checkpoint/safetensors/safetensors.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/initial_weights.hpp"
#include "huggingface/params_file.hpp"
#include "job/identity.hpp"
#include "job/input_checks.hpp"
#include "model/model_tensors.hpp"
#include "plugins/catalog.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace wmtp {
namespace {

class FrozenShapeTest : public testing::Test {
 protected:
  FrozenShapeTest() {
    experiment_.file = folder() / "a.toml";
    ModelConfig& m = experiment_.model;
    m.dim = 8;
    m.layers = 6;
    m.heads = m.kv_heads = 2;
    m.ffn_dim = 8;
    m.vocab_size = 16;
    experiment_.reference.given = true;
    experiment_.reference.weights = "reference.safetensors";
  }
  const std::filesystem::path& folder() const { return folder_.path(); }
  std::filesystem::path file() const { return folder() / "reference.safetensors"; }
  std::filesystem::path database() const { return folder() / "runs" / "log.db"; }

  /// A file with this many heads and a trunk like the policy's.
  void write_weights(int64_t heads, FutureHeads kind = FutureHeads::parallel) const {
    ModelConfig shape = experiment_.model;
    shape.layers += heads - shape.future_tokens;
    shape.future_tokens = heads;
    shape.future_heads = kind;
    std::vector<TensorEntry> entries;
    for (const ModelTensor& tensor : model_tensors(shape)) entries.push_back({tensor.name, "F32", tensor.shape});
    std::filesystem::remove(file());
    SafetensorsWriter writer(file(), entries, {});
    for (const TensorEntry& entry : entries) {
      int64_t count = 1;
      for (const int64_t size : entry.shape) count *= size;
      const std::vector<float> values(size_t(count), 1.0F);
      writer.write(entry.name, 0, values.data(), values.size() * sizeof(float));
    }
    writer.finish();
  }
  void set_stage(int64_t future_tokens) {
    auto stage = std::make_shared<Experiment>();
    stage->model = experiment_.model;
    stage->model.future_tokens = future_tokens;
    stage->model.layers = 2 + future_tokens;
    experiment_.reference.weights.clear();
    experiment_.stages["reference"] = stage;
  }
  int64_t read_heads(ReferenceHeads choice = ReferenceHeads::automatic) {
    experiment_.reference.heads = choice;
    return frozen_shape("reference", experiment_, file()).token_heads;
  }
  std::string refused() {
    return test::refusal(ExitStatus::data, [&] { read_heads(ReferenceHeads::own); });
  }

  test::TemporaryFolder folder_;
  Experiment experiment_;
};

TEST_F(FrozenShapeTest, ReadsTheOwnHeadsOfAStageThatHasThem) {
  for (const auto& [stage, read] : {std::pair{1, 1}, {3, 1}, {4, 4}, {6, 4}}) {
    set_stage(stage);
    EXPECT_EQ(read_heads(), read) << stage << " heads";
    EXPECT_EQ(read_heads(ReferenceHeads::next), 1);
    EXPECT_EQ(frozen_shape("reference", experiment_, {}).model.future_tokens, stage);
  }
  set_stage(4);
  experiment_.model.future_tokens = 1;
  EXPECT_EQ(read_heads(), 1);
  EXPECT_EQ(read_heads(ReferenceHeads::own), 1) << "head 1 is both";
}

TEST_F(FrozenShapeTest, CountsTheHeadsOfAFileByItsTensors) {
  for (const auto& [stored, read] : {std::pair{1, 1}, {3, 1}, {4, 4}, {6, 4}}) {
    write_weights(stored);
    EXPECT_EQ(read_heads(), read) << stored << " heads";
    const ModelConfig shape = frozen_shape("reference", experiment_, file()).model;
    EXPECT_EQ(num_trunk_blocks(shape), 2);
    EXPECT_EQ(shape.future_tokens, read > 1 ? stored : 4) << "as in [model] where only head 1 is read";
    EXPECT_EQ(read_heads(ReferenceHeads::next), 1);
  }
}

TEST_F(FrozenShapeTest, TakesTheKindOfHeadsFromTheFileUnlessATableStatesIt) {
  write_weights(4, FutureHeads::chained);
  EXPECT_EQ(read_heads(), 4);
  EXPECT_TRUE(has_chained_heads(frozen_shape("reference", experiment_, file()).model));
  experiment_.reference.model = experiment_.model;
  EXPECT_EQ(read_heads(), 1) << "as before there was a choice: only head 1 is known to be read rightly";
  EXPECT_SAYS(refused(), "[reference] heads = \"own\": " + file().string() +
                             ": found chained heads, "
                             "[reference.model] has parallel ones; set its future_heads to \"chained\"");
  experiment_.reference.model->future_heads = FutureHeads::chained;
  EXPECT_EQ(read_heads(), 4);
}

TEST_F(FrozenShapeTest, ReadsOnlyHeadsThatPredictTheTokensOfThePolicys) {
  const std::vector<int64_t> leaps{1, 3, 5, 7};
  set_stage(5);
  experiment_.model.future_offsets = leaps;
  EXPECT_EQ(read_heads(), 1) << "the stage's second head predicts the token after the next";
  auto stage = std::make_shared<Experiment>(*experiment_.stage("reference"));
  stage->model.future_offsets = {1, 3, 5, 7, 9};
  experiment_.stages["reference"] = stage;
  EXPECT_EQ(read_heads(), 4);
  experiment_.model.future_offsets.clear();
  EXPECT_EQ(read_heads(), 1);

  experiment_.stages.clear();
  write_weights(4);
  experiment_.model.future_offsets = leaps;
  EXPECT_EQ(read_heads(), 4) << "a file without a shape is like the policy";
  EXPECT_EQ(frozen_shape("reference", experiment_, file()).model.future_offsets, leaps);
  const std::filesystem::path stated = folder() / "stated";
  std::filesystem::create_directory(stated);
  std::filesystem::copy(file(), stated / "model.safetensors");
  SavedShape saved;
  saved.model = experiment_.model;
  const auto read_stated = [&](const std::vector<int64_t>& offsets) {
    saved.model.future_offsets = offsets;
    std::ofstream(stated / params_file_name) << params_text(saved);
    return frozen_shape("reference", experiment_, stated).token_heads;
  };
  experiment_.reference.heads = ReferenceHeads::automatic;
  EXPECT_EQ(read_stated(leaps), 4);
  EXPECT_EQ(read_stated({}), 1);
  const std::vector<int64_t> other{1, 3, 5, 8};
  EXPECT_EQ(read_stated(other), 1);
  experiment_.reference.heads = ReferenceHeads::own;
  EXPECT_SAYS(
      test::refusal(ExitStatus::data, [&] { read_stated(other); }),
      "found heads with future_offsets [1, 3, 5, 8], wanted those of [model], [1, 3, 5, 7]; choose a reference");
}

TEST_F(FrozenShapeTest, WarnsOfWeightsWhoseHeadsPredictOtherTokensThanThePolicys) {
  SavedShape saved;
  saved.model = experiment_.model;
  const auto difference = [&](int64_t heads, const std::vector<int64_t>& offsets) {
    saved.model.future_tokens = heads;
    saved.model.future_offsets = offsets;
    std::filesystem::remove(folder() / params_file_name);
    std::ofstream(folder() / params_file_name) << params_text(saved);
    return offsets_difference(folder(), experiment_.model);
  };
  write_weights(4);
  experiment_.model.future_offsets = {1, 3, 5, 7};
  EXPECT_EQ(difference(4, {1, 3, 5, 7}), "");
  EXPECT_EQ(difference(1, {}), "") << "head 1 predicts the next token";
  EXPECT_EQ(difference(3, {1, 3, 5}), "") << "the fourth is new";
  EXPECT_EQ(difference(2, {}), "future_offsets is [1, 2] there and [1, 3] here");
  EXPECT_EQ(difference(5, {1, 3, 5, 8, 9}), "future_offsets is [1, 3, 5, 8] there and [1, 3, 5, 7] here");
  EXPECT_EQ(weight_warnings("model", folder(), experiment_.model, experiment_, {}),
            std::vector<std::string>{"[model] weights " + folder().string() +
                                     ": future_offsets is [1, 3, 5, 8] there and [1, 3, 5, 7] here"});
  EXPECT_TRUE(weight_warnings("reference", folder(), experiment_.model, experiment_, {}).empty());
}

TEST_F(FrozenShapeTest, ComparesAFileWithTheShapeThatItsFolderStates) {
  const auto state = [&](const SavedShape& saved) {
    std::filesystem::remove(folder() / params_file_name);
    std::ofstream(folder() / params_file_name) << params_text(saved);
  };
  const auto refused_file = [&] {
    try {
      check_initial_weights(file(), experiment_.model, 1);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  write_weights(1);
  SavedShape saved;
  saved.model = experiment_.model;
  saved.model.rope_theta = 500;
  state(saved);
  EXPECT_EQ(refused_file(), "");
  EXPECT_EQ(
      weight_warnings("model", file(), experiment_.model, experiment_, {}),
      std::vector<std::string>{"[model] weights " + file().string() + ": rope_theta is 500.0 there and 10000.0 here"});
  EXPECT_EQ(frozen_shape("reference", experiment_, file()).model.rope_theta, 500) << "as that of a folder";
  EXPECT_EQ(read_heads(), 1) << "the four heads that are stated may be in other files";
  saved.model.heads = saved.model.kv_heads = 1;
  state(saved);
  EXPECT_EQ(refused_file(), (folder() / params_file_name).string() +
                                ": 1 heads and 1 kv_heads, [model] has 2 and 2; set them to the weights' own");
  std::filesystem::remove(folder() / params_file_name);
  Json config = hf_config_json(experiment_.model, "F32");
  config["max_position_embeddings"] = 64;
  config["attention_dropout"] = 0.1;
  std::ofstream(folder() / hf_config_name) << config;
  EXPECT_EQ(weight_warnings("model", file(), experiment_.model, experiment_, {}),
            std::vector<std::string>{"[model] weights " + file().string() +
                                     ": attention_dropout is 0.1 there and 0 here: nothing is dropped from this "
                                     "model's activations"});
  state(saved);
  EXPECT_FALSE(shape_statement(file())->is_hf) << "of two statements, that with the names of the tensors";
}

TEST_F(FrozenShapeTest, KnowsALengthOnlyWhereOneIsStated) {
  write_weights(1);
  EXPECT_EQ(stated_sequence_length(file()), std::nullopt);
  Json config = hf_config_json(experiment_.model, "F32");
  const auto state = [&](const char* name, const std::string& text) {
    std::filesystem::remove(folder() / hf_config_name);
    std::filesystem::remove(folder() / params_file_name);
    std::ofstream(folder() / name) << text;
    return stated_sequence_length(file());
  };
  config["max_position_embeddings"] = 128;
  EXPECT_EQ(state(hf_config_name, config.dump()), 128);
  config.erase("max_position_embeddings");
  EXPECT_EQ(state(hf_config_name, config.dump()), std::nullopt) << "2048 is transformers' guess";
  SavedShape saved;
  saved.model = experiment_.model;
  EXPECT_EQ(state(params_file_name, params_text(saved)), std::nullopt);
  saved.model.max_sequence_length = 32;
  EXPECT_EQ(state(params_file_name, params_text(saved)), 32);
}

TEST_F(FrozenShapeTest, WarnsOfSequencesLongerThanWeightsToTrainState) {
  write_weights(4);
  SavedShape saved;
  saved.model = experiment_.model;
  saved.model.max_sequence_length = 32;
  std::ofstream(folder() / params_file_name) << params_text(saved);
  const auto warnings = [&](int64_t sequence_length, const char* table = "model") {
    experiment_.train.sequence_length = sequence_length;
    std::string all;
    for (const std::string& warning : weight_warnings(table, folder(), experiment_.model, experiment_, {}))
      if (warning.find("rope_scaling is") == warning.npos) all += warning;
    return all;
  };
  EXPECT_EQ(warnings(32), "");
  EXPECT_EQ(warnings(33), "[model] weights " + folder().string() +
                              ": its sequences have at most 32 tokens, and train.sequence_length is 33: the positions "
                              "beyond are new to the model; set train.sequence_length to 32, or scale the positions "
                              "with [model] rope_scaling");
  EXPECT_EQ(warnings(33, "reference"), "") << "it is refused where its shape is not given";
  experiment_.model.rope_scaling = RopeScaling{.rope_type = RopeType::linear, .factor = 2};
  EXPECT_EQ(warnings(64), "");
  EXPECT_NE(warnings(65), "");
  experiment_.model.rope_scaling = RopeScaling{RopeType::yarn, 4, 0, 0, 20, 1, 32, 1};
  EXPECT_EQ(warnings(80), "");
  EXPECT_NE(warnings(81), "") << "of the original length";
}

TEST_F(FrozenShapeTest, ReadsOneBlockAsAsManySharedHeadsAsTheShapeStates) {
  write_weights(4, FutureHeads::shared);
  EXPECT_EQ(read_heads(), 1) << "the tensors are those of two chained heads";
  experiment_.model.future_heads = FutureHeads::shared;
  EXPECT_EQ(read_heads(), 4) << "a file without a shape is like the policy";
  EXPECT_TRUE(has_shared_heads(frozen_shape("reference", experiment_, file()).model));
  write_weights(3, FutureHeads::chained);
  EXPECT_EQ(read_heads(), 1) << "two blocks are not one";
  write_weights(2, FutureHeads::chained);
  experiment_.reference.model = experiment_.model;
  experiment_.reference.model->layers = 8;
  experiment_.reference.model->future_tokens = 6;
  EXPECT_EQ(read_heads(), 4);
  EXPECT_EQ(frozen_shape("reference", experiment_, file()).model.future_tokens, 6);
}

TEST_F(FrozenShapeTest, RefusesOwnHeadsThatWeightsLackWithTheFileTheNumbersAndTheWayOut) {
  write_weights(3);
  EXPECT_EQ(refused(),
            experiment_.file.string() + ": [reference] heads = \"own\": " + file().string() +
                ": found 3 heads, wanted at least [model] future_tokens = 4; choose a reference with as many "
                "heads, or set heads = \"next\", which compares each head with the reference's next-token "
                "head");
}

TEST_F(FrozenShapeTest, OwnHeadsAreAnInputOfTheIdentityAndTheNextTokensHeadIsNot) {
  const auto is_named = [&] {
    for (const auto& [name, hash] : input_hashes(experiment_, {}, Catalog({}), database()))
      if (name == "reference.heads") return hash() == "own";
    return false;
  };
  EXPECT_FALSE(is_named()) << "the file is missing, which its own input reports";
  write_weights(1);
  EXPECT_FALSE(is_named());
  write_weights(4);
  EXPECT_TRUE(is_named());
  experiment_.reference.heads = ReferenceHeads::own;
  EXPECT_TRUE(is_named());
  experiment_.reference.heads = ReferenceHeads::next;
  EXPECT_FALSE(is_named());
  experiment_.reference = {};
  EXPECT_FALSE(is_named());
}

}  // namespace
}  // namespace wmtp
