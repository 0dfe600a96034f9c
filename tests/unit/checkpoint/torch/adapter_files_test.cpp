// The folder of an adapter: its contents, loading in every layout, and refusals.
#include "checkpoint/torch/adapter_files.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.hpp"
#include "base/json.hpp"
#include "checkpoint/safetensors/safetensors.hpp"
#include "checkpoint/verify.hpp"
#include "support/ranks.hpp"
#include "support/test_folder.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::on_ranks;

class LowRank : public LinearAdapter {
 public:
  explicit LowRank(int64_t rank = 32, std::string where = "wq") : rank_(rank), where_(std::move(where)) {}
  bool trains(const std::string&) const override { return false; }
  std::vector<Param> declare(const Linear& layer) const override {
    if (!layer.name.ends_with(where_)) return {};
    return {{"lora_A", {rank_, layer.in}, Param::Init::uniform, 0.1},
            {"lora_B", {layer.out, rank_}},
            {"magnitude", {1, layer.out}, Param::Init::row_norms}};
  }

  Tensor forward(const Linear&, const Tensor& x, LinearCall& call) const override { return call.base(x); }
  Tensor merged(const Linear&, const Tensor& weight, const std::vector<Tensor>&) const override { return weight; }

 private:
  int64_t rank_;
  std::string where_;
};

ModelConfig small() {
  ModelConfig model;
  model.dim = 256;
  model.layers = 3;
  model.heads = model.kv_heads = 4;
  model.ffn_dim = 8;
  model.vocab_size = 9;
  model.future_tokens = 2;
  return model;
}

const AdapterIdentity identity{"low_rank", "1.0", {{"rank", int64_t{32}}, {"alpha", 16.0}}};

struct Layout {
  int ranks = 1;
  Strategy strategy = Strategy::full_shard;
  int64_t seed = 1;
  at::ScalarType compute = at::kFloat;
};

void on_a_model(const Layout& layout, const Adapter& adapter,
                const std::function<void(ShardedModel&, Channels&)>& body) {
  on_ranks(layout.ranks, [&](Channels& channels) {
    const ModelConfig config = small();
    ShardedModelRequest request;
    request.spec.model = &config;
    request.spec.adapter = &adapter;
    request.options.strategy = layout.strategy;
    request.options.param_dtype = layout.compute;
    request.sequence_length = 4;
    ShardedModel model(request, channels);
    model.initialize(layout.seed);
    body(model, channels);
  });
}

/// Gives every element its own value, as training would.
void train(ShardedModel& model) {
  model.fill([&](const ParameterSpec& spec, int64_t begin, int64_t count, float* out) {
    for (int64_t i = 0; i < count; ++i) out[i] = float(begin + i) / 3 + float(spec.name.size());
    return model.adapter_unit()->holds(spec.name);
  });
}

class AdapterFiles : public testing::Test {
 protected:
  void save(const Layout& layout) {
    on_a_model(layout, LowRank(), [&](ShardedModel& model, Channels& channels) {
      train(model);
      save_adapter(adapter_, 7, "hash", identity, model);
    });
  }
  std::string refusal(const AdapterIdentity& who, const Layout& layout = {}, const Adapter& adapter = LowRank()) {
    std::string message;
    on_a_model(layout, adapter, [&](ShardedModel& model, Channels&) {
      try {
        load_adapter(adapter_, who, model);
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), ExitStatus::data);
        message = error.what();
      }
    });
    return message;
  }
  test::TestFolder folder_;
  std::filesystem::path adapter_ = folder_.path() / "adapter";
};

TEST_F(AdapterFiles, ContainOnlyTheAdaptersParametersAndItsIdentity) {
  save({});
  const SafetensorsFile file(adapter_ / "adapter.safetensors");
  int64_t bytes = 0;
  for (const TensorEntry& entry : file.entries()) {
    EXPECT_EQ(entry.dtype, "F32");
    bytes += entry.end - entry.begin;
  }
  EXPECT_EQ(file.entries().size(), 9U);
  EXPECT_EQ(bytes, 3 * 4 * (32 * 256 * 2 + 256));
  EXPECT_LE(int64_t(std::filesystem::file_size(file.path())), bytes + bytes / 100);
  const auto identity_file = Json::parse(std::ifstream(adapter_ / "adapter.json"));
  EXPECT_EQ(identity_file.at("plugin"), "low_rank");
  EXPECT_EQ(identity_file.at("version"), "1.0");
  EXPECT_EQ(identity_file.at("options").at("rank"), 32);
  EXPECT_EQ(identity_file.at("base_fingerprint").get<std::string>().size(), 16U);
  EXPECT_EQ(verify_checkpoint(adapter_).kind, ManifestKind::adapter);
}

TEST_F(AdapterFiles, LoadBitForBitInEveryLayout) {
  save({2, Strategy::full_shard});
  const Layout layouts[] = {{1}, {3, Strategy::full_shard}, {2, Strategy::no_shard, 1, at::kBFloat16}};
  for (const Layout& layout : layouts)
    on_a_model(layout, LowRank(), [&](ShardedModel& model, Channels&) {
      const auto& group = model.adapter_unit()->groups().front();
      load_adapter(adapter_, identity, model);
      const Tensor loaded = group->master().clone();
      train(model);
      group->for_each_part(loaded, [&](const FlatParameter& placed, int64_t begin, const Tensor& part) {
        const Tensor wanted = group->master().narrow(0, placed.offset + begin - group->shard_begin(), part.numel());
        EXPECT_TRUE(at::equal(part, wanted)) << placed.spec.name;
      });
    });
}

TEST_F(AdapterFiles, OfAnotherBaseAreRefusedNamingBothFingerprints) {
  save({});
  const std::string message = refusal(identity, {1, Strategy::full_shard, /*seed=*/2});
  const auto identity_file = Json::parse(std::ifstream(adapter_ / "adapter.json"));
  EXPECT_NE(message.find(identity_file.at("base_fingerprint").get<std::string>()), std::string::npos) << message;
  on_a_model({1, Strategy::full_shard, 2}, LowRank(), [&](ShardedModel& model, Channels&) {
    EXPECT_NE(message.find(fingerprint_text(model.base_fingerprint())), std::string::npos) << message;
  });
}

TEST_F(AdapterFiles, OfAnotherPluginOrOtherOptionsAreRefusedByName) {
  save({});
  AdapterIdentity other = identity;
  other.plugin = "lora";
  EXPECT_NE(refusal(other).find("\"low_rank\""), std::string::npos);
  other = identity;
  other.options["rank"] = int64_t{4};
  const std::string message = refusal(other);
  EXPECT_NE(message.find("option rank is 32, but here 4"), std::string::npos) << message;
  other = identity;
  other.version = "1.1";
  EXPECT_EQ(refusal(other), "") << "the version is informational, not compared";
}

TEST_F(AdapterFiles, WithOtherTensorsAreRefusedByName) {
  save({});
  EXPECT_NE(refusal(identity, {}, LowRank(4)).find("lora_"), std::string::npos);
  EXPECT_NE(refusal(identity, {}, LowRank(32, "wv")).find("'layers.0.attention.wv.lora_A' is missing"),
            std::string::npos);
  EXPECT_NE(refusal(identity, {}, LowRank(32, "layers.0.attention.wq")).find("is not part of the adapter"),
            std::string::npos);
}

TEST_F(AdapterFiles, ThatAreDamagedOrContainNoAdapterAreRefused) {
  EXPECT_NE(refusal(identity).find("is not a folder"), std::string::npos);
  save({});
  const auto file = adapter_ / "adapter.safetensors";
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-5, std::ios::end);
  stream.put('x');
  stream.close();
  EXPECT_NE(refusal(identity).find("damaged"), std::string::npos);
}

/// LoRA beside parameters of the model that train as a whole, in a unit of frozen ones and in one of their own.
class NormsToo : public LowRank {
 public:
  bool trains(const std::string& name) const override { return name.ends_with("norm.weight"); }
};

void check_norms(ShardedModel& model, float wanted) {
  for (const auto& unit : model.units())
    for (const auto& group : unit->groups())
      group->for_each_part(group->master(), [&](const FlatParameter& placed, int64_t, const Tensor& part) {
        if (placed.spec.name.ends_with("norm.weight")) {
          EXPECT_TRUE((part == wanted).all().item<bool>()) << placed.spec.name;
        }
      });
}

TEST_F(AdapterFiles, ContainTheParametersThatTrainBesideTheAdapter) {
  const auto as_trained = [](const ParameterSpec& spec, int64_t, int64_t count, float* out) {
    std::fill(out, out + count, 0.25F);
    return spec.trains;
  };
  on_a_model({2}, NormsToo(), [&](ShardedModel& model, Channels& channels) {
    model.fill(as_trained);
    save_adapter(adapter_, 7, "hash", identity, model);
  });
  EXPECT_EQ(trained_parameters_in(adapter_, small()),
            (std::vector<std::string>{"layers.0.attention_norm.weight", "layers.0.ffn_norm.weight",
                                      "layers.1.attention_norm.weight", "layers.1.ffn_norm.weight",
                                      "extra_heads.0.attention_norm.weight", "extra_heads.0.ffn_norm.weight",
                                      "norm.weight"}));
  for (const Layout& layout : {Layout{1}, Layout{3}, Layout{2, Strategy::no_shard, 1, at::kBFloat16}})
    on_a_model(layout, NormsToo(), [&](ShardedModel& model, Channels&) {
      const uint64_t base = model.base_fingerprint();
      check_norms(model, 1);
      load_adapter(adapter_, identity, model);
      check_norms(model, 0.25F);
      EXPECT_EQ(model.base_fingerprint(), base) << "the base is what stays frozen";
    });
}

TEST_F(AdapterFiles, OfOtherTrainedParametersAreRefusedByName) {
  save({});
  EXPECT_NE(refusal(identity, {}, NormsToo()).find("'layers.0.attention_norm.weight' is missing; it trains here; set"),
            std::string::npos);
  std::filesystem::remove_all(adapter_);
  on_a_model({}, NormsToo(),
             [&](ShardedModel& model, Channels& channels) { save_adapter(adapter_, 7, "hash", identity, model); });
  EXPECT_NE(refusal(identity).find("is not part of the adapter, because it does not train here; set [adapter] train"),
            std::string::npos);
}

}  // namespace
}  // namespace wmtp
