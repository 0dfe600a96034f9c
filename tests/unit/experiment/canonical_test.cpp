// An experiment as text, as a hash and as flat values.
#include "reference_page.hpp"
#include "support/experiment_fixture.hpp"
#include "support/source_tree.hpp"

namespace wmtp {
namespace {

class Canonical : public ExperimentFolder {
 protected:
  Experiment reload(const Experiment& e) const {
    return load_experiment({write("again.toml", to_toml(e)), {}, known_plugin, {}, asked_plugin});
  }
  std::string hash(const std::vector<std::string>& overrides, const IdentityParts& parts = {}) const {
    return config_hash(load(text_experiment, overrides), parts);
  }
};

void expect_equal(const Experiment& a, const Experiment& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.pipeline, b.pipeline);
  EXPECT_EQ(a.inner, b.inner);
  EXPECT_EQ(a.adapter, b.adapter);
  EXPECT_EQ(a.trained_parts, b.trained_parts);
  EXPECT_EQ(a.adapter_weights, b.adapter_weights);
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.reference, b.reference);
  EXPECT_EQ(a.references, b.references);
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(a.data, b.data);
  EXPECT_EQ(a.train, b.train);
  EXPECT_EQ(a.optimizer, b.optimizer);
  EXPECT_EQ(a.schedule, b.schedule);
  EXPECT_EQ(a.parallel, b.parallel);
  EXPECT_EQ(a.checkpoint, b.checkpoint);
  EXPECT_EQ(a.validation, b.validation);
  EXPECT_EQ(a.guard, b.guard);
  EXPECT_EQ(a.log, b.log);
}

TEST_F(Canonical, IsReadBackToAnEqualValue) {
  const std::string rho1 = with(small, "baseline", "rho1");
  for (const Experiment& e :
       {load(small),
        load(small, {"optimizer.lr=0.1", "optimizer.betas=[0, 0.999]", "schedule.name=cosine",
                     "parallel.activation_checkpointing=full", "adapter.plugin=lora", "guard.loss_spike=1e300",
                     "train.head_weights=[1, 0.3, 0.1, 0]", "model.future_heads=chained"}),
        load(small, {"train.head_weights=[{step=1, weights=[1, 1, 1, 1]}, {step=1000000, weights=[1, 0.3, 0.1, 0]}]"}),
        load(small, {"model.future_offsets=[1, 2, 6, 31]"}),
        load(small, {"optimizer.name=muon", "train.ema=0.9", "schedule.name=wsd", "schedule.stable_steps=3",
                     "schedule.decay=cosine"}),
        load(small, {"optimizer.groups=[{match=\"a\", lr_scale=0.5}, {match=\"b\", weight_decay=0}]",
                     "adapter.train_last=1", "adapter.train=[\"norm.weight\"]"}),
        load(small, {"optimizer.name=sgd", "optimizer.momentum=0", "schedule.name=linear"}),
        load(small, {"parallel.optimizer_offload=nvme", "parallel.offload_path=/disk"}),
        load(small, {"parallel.processes=6", "parallel.strategy=hybrid_shard", "parallel.shard_group_size=3"}),
        load(small, {"parallel.strategy=hybrid_shard", "parallel.shard_group_size=host"}),
        load(small, {"data.kind=tokens", "data.file=\"/data/a \\\"b\\\\\\u0007.bin\"", "data.dtype=uint32"}),
        load(small, {"data.kind=tokens", "data.files=[\"/data/*.bin\"]", "validation.share=0.1"}),
        load(with(text_experiment, "steps = 10", "epochs = 1.5"),
             {"data.files=[\"/c/**.py\"]", "data.tokenizer.files=[\"/c/*\"]", "data.exclude=[\"/d\"]",
              "validation.files=[\"/v\"]", "validation.every_steps=3"}),
        load(rho1 + "[reference]\nweights = \"run:b\"\nstrategy = \"no_shard\"\nprecision = \"bf16\"\n"
                    "[reference.model]\ndim = 128\n"),
        load(with(small, "baseline", "formula") +
                 "[value]\nweights = \"run:c\"\ncache = false\n[value.model]\nlayers = 2\n"
                 "future_tokens = 1\n[adapter]\nplugin = \"lora\"\nweights = \"run:l\"\n",
             {"pipeline.weight=\"value * 2\""}),
        load(with(small, "baseline", "critic"), {"pipeline.loss=lambda_return", "optimizer.value_head_lr=0.5"}),
        load(with(small, "baseline", "shuffled"), {"pipeline.inner.plugin=formula", "pipeline.inner.weight=ce"})}) {
    SCOPED_TRACE(to_toml(e));
    expect_equal(reload(e), e);
    EXPECT_EQ(to_toml(reload(e)), to_toml(e));
  }
}

TEST_F(Canonical, MakesPathsAbsoluteAndKeepsTheStage) {
  write("b.toml", text_experiment);
  const Experiment e = load(with(text_experiment, "baseline", "rho1") +
                                "[reference]\nexperiment = \"b.toml\"\n"
                                "[validation]\nfiles = [\"held/*\"]\n",
                            {"model.weights=w/x.safetensors"});
  const std::string text = to_toml(e);
  expect_in_order(text, {"weights = \"" + folder_.string() + "/w/x.safetensors\"",
                         "experiment = \"" + folder_.string() + "/b.toml\"",
                         "files = [\"" + folder_.string() + "/corpus/**.py\"]", "database = \"runs/wmtp.db\""});
  const Experiment again = reload(e);
  EXPECT_EQ(to_toml(again), text);
  EXPECT_EQ(to_toml(*again.stage("reference")), to_toml(*e.stage("reference")));
}

TEST_F(Canonical, HasEveryKeyWithItsDefault) {
  const std::string text = to_toml(load(small));
  expect_in_order(
      text, {"name = \"small\"\nseed = 0\n", "[pipeline]\nplugin = \"baseline\"\n", "[adapter]\nplugin = \"full\"\n",
             "kv_heads = 4\n", "rope_theta = 10000.0\n", "lr = 0.0003\nbetas = [0.9, 0.95]\n",
             "strategy = \"full_shard\"\n", "cpu_offload = false\n", "[log]\nevery_steps = 1\n"});
}

TEST_F(Canonical, PrintsDefaultsOfPluginOptionsAsComments) {
  const std::string rho1 = with(small, "baseline", "rho1") + "[reference]\nweights = \"run:b\"\n";
  const Experiment e = load(rho1, {"pipeline.keep=0.6"});
  EXPECT_EQ(e.pipeline.given, std::set<std::string>{"keep"});
  expect_in_order(to_toml(e), {"\nplugin = \"rho1\"\nkeep = 0.6\n# limit = inf\n# mode = \"signed\"\n"});
  EXPECT_EQ(reload(e).pipeline, e.pipeline);
  EXPECT_EQ(config_hash(e, {}), config_hash(load(rho1), {})) << "giving the default value changes no result";
}

TEST_F(Canonical, HashIgnoresWhatDoesNotChangeTheResult) {
  const std::string base = hash({});
  EXPECT_EQ(base.size(), 64u);
  for (const std::string same :
       {"name=other", "log.every_steps=7", "log.database=x.db", "log.tensorboard=board", "log.profile_step=3",
        "log.heads_every_steps=14", "checkpoint.every_steps=3", "checkpoint.keep=9", "parallel.processes=2",
        "parallel.strategy=no_shard", "parallel.device=cpu", "data.files=[\"elsewhere/*\"]", "data.exclude=[\"x\"]",
        "train.clip_norm=1.0", "guard.loss_ratio=0", "adapter.plugin=full", "train.head_weights=[1, 1, 1, 1]",
        "model.future_heads=parallel", "model.future_offsets=[1, 2, 3, 4]"}) {
    EXPECT_EQ(hash({same}), base) << same;
  }
  EXPECT_EQ(hash({"parallel.optimizer_offload=nvme", "parallel.offload_path=disk"}), base);
}

TEST_F(Canonical, HashOfAGlobalBatchIgnoresTheRanksThatFillIt) {
  const auto hash_on = [&](const std::string& ranks) {
    return hash({"train.global_batch_size=8", "parallel.processes=" + ranks});
  };
  EXPECT_EQ(hash_on("1"), hash_on("4"));
  EXPECT_NE(hash_on("1"), hash({}));
  EXPECT_NE(hash_on("1"), hash({"train.global_batch_size=16"}));
}

TEST_F(Canonical, HashIgnoresShardGroups) {
  const auto of_two = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"parallel.processes=4", "parallel.strategy=hybrid_shard"};
    all.insert(all.end(), more.begin(), more.end());
    return hash(all);
  };
  EXPECT_EQ(of_two({"parallel.shard_group_size=2"}), hash({}));
  EXPECT_EQ(of_two({"parallel.shard_group_size=4"}), hash({}));
  EXPECT_EQ(of_two({"parallel.shard_group_size=host"}), hash({}));
}

TEST_F(Canonical, HashChangesWithEverythingThatChangesTheResult) {
  const std::string base = hash({});
  for (const std::string other :
       {"seed=1", "train.steps=11", "optimizer.lr=0.1", "parallel.precision=bf16", "train.batch_size=3",
        "adapter.plugin=lora", "data.order=sequential", "model.dim=128", "validation.every_steps=3",
        "train.head_weights=[1, 1, 1, 0.3]", "train.head_weights=[{step=2, weights=[1, 1, 1, 1]}]",
        "model.future_heads=chained", "model.future_heads=shared", "model.future_offsets=[1, 2, 3, 5]"}) {
    EXPECT_NE(hash({other}), base) << other;
  }
  EXPECT_NE(hash({"model.future_offsets=[1, 3, 5, 7]"}), hash({"model.future_offsets=[1, 2, 3, 5]"}));
  EXPECT_NE(hash({"model.future_heads=chained"}), hash({"model.future_heads=shared"}));
  EXPECT_NE(hash({"parallel.precision=bf16", "parallel.reduce=bf16"}), hash({"parallel.precision=bf16"}));
  EXPECT_EQ(hash({"parallel.precision=bfloat16", "parallel.reduce=bfloat16"}),
            hash({"parallel.precision=bf16", "parallel.reduce=bf16"}));
  EXPECT_NE(hash({}, {{"data", "1"}}), base);
  EXPECT_NE(hash({}, {{"data", "1"}}), hash({}, {{"data", "2"}}));
  EXPECT_NE(hash({}, {{"a", "b\" = \"c"}}), hash({}, {{"a\" = \"b", "c"}}));
}

TEST_F(Canonical, HashIncludesTheInnerPluginAndItsOptions) {
  const std::string wrapper = with(small, "baseline", "shuffled");
  const auto hash_of = [&](const std::string& plugin, const std::string& option) {
    return config_hash(load(wrapper, {"pipeline.inner.plugin=" + plugin, "pipeline.inner." + option}), {});
  };
  const std::string base = hash_of("formula", "weight=ce");
  EXPECT_EQ(base, hash_of("formula", "weight=\"ce\""));
  EXPECT_NE(base, hash_of("formula", "weight=\"2*ce\""));
  const auto flat = flat_values(load(wrapper, {"pipeline.inner.plugin=formula", "pipeline.inner.weight=ce"}));
  EXPECT_EQ(std::get<std::string>(flat.at("pipeline.inner.plugin")), "formula");
  EXPECT_EQ(std::get<std::string>(flat.at("pipeline.inner.weight")), "ce");
}

TEST_F(Canonical, HashIgnoresCachesAndPathsOfWeights) {
  const std::string rho1 = with(small, "baseline", "rho1") + "[reference]\nweights = \"run:b\"\n";
  EXPECT_EQ(config_hash(load(rho1), {}), config_hash(load(rho1, {"reference.cache=false"}), {}));
  // What follows from it is an input (job/identity.hpp).
  EXPECT_EQ(config_hash(load(rho1), {}), config_hash(load(rho1, {"reference.heads=next"}), {}));
  EXPECT_EQ(hash({}), hash({"adapter.weights=\"run:x\""}));
  EXPECT_NE(hash({}), hash({"optimizer.lr=1"}));
}

TEST_F(Canonical, ReturnsFlatValuesWithTheirTypes) {
  const auto flat = flat_values(load(small, {"adapter.plugin=lora"}));
  EXPECT_EQ(std::get<int64_t>(flat.at("train.batch_size")), 2);
  EXPECT_EQ(std::get<double>(flat.at("optimizer.lr")), 3e-4);
  EXPECT_EQ(std::get<std::string>(flat.at("parallel.strategy")), "full_shard");
  EXPECT_EQ(std::get<std::vector<double>>(flat.at("optimizer.betas")), (std::vector{0.9, 0.95}));
  EXPECT_EQ(std::get<int64_t>(flat.at("adapter.rank")), 8);
  EXPECT_EQ(std::get<std::string>(flat.at("name")), "small");
  EXPECT_EQ(flat.count("train.epochs"), 0u);
  EXPECT_EQ(flat.count("reference.weights"), 0u);
}

TEST_F(Canonical, ReferencePageMatchesDocs) {
  const auto page = source_tree() / "docs/experiment.md";
  // WMTP_WRITE_DOCS=1 rewrites the page.
  if (std::getenv("WMTP_WRITE_DOCS")) std::ofstream(page) << test::experiment_reference_markdown();
  std::ifstream stream(page);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_EQ(text, test::experiment_reference_markdown())
      << "run this test with WMTP_WRITE_DOCS=1 and review the change";
}

}  // namespace
}  // namespace wmtp
