// Loading an experiment: values and defaults; all errors at once, each with its place.
#include "base/time_use.hpp"
#include "support/experiment_fixture.hpp"

namespace wmtp {
namespace {

using Load = ExperimentFolder;

TEST_F(Load, FillsInDefaults) {
  const Experiment e = load(small);
  EXPECT_EQ(e.seed, 0);
  EXPECT_EQ(e.adapter.plugin, "full");
  EXPECT_EQ(e.model.kv_heads, 4);
  EXPECT_EQ(e.model.ffn_dim, 256);
  EXPECT_EQ(e.model.future_tokens, 4);
  EXPECT_EQ(e.model.max_sequence_length, 32);
  EXPECT_EQ(e.train.clip_norm, 1.0);
  EXPECT_EQ(e.optimizer.lr, 3e-4);
  EXPECT_EQ(e.optimizer.beta2, 0.95);
  EXPECT_EQ(e.parallel.strategy, Strategy::full_shard);
  EXPECT_EQ(e.log.database, "runs/wmtp.db");
  EXPECT_FALSE(e.validation.given);
  EXPECT_FALSE(e.reference.given);
  EXPECT_EQ(e.source, small);
  EXPECT_EQ(e.file, folder_ / "a.toml");
}

TEST_F(Load, ComputesTheFeedForwardWidthByLlamasRule) {
  EXPECT_EQ(load(small, {"model.dim=4096"}).model.ffn_dim, 11008);
  EXPECT_EQ(load(small, {"model.dim=768"}).model.ffn_dim, 2048);
  EXPECT_EQ(load(small, {"model.ffn_dim=100"}).model.ffn_dim, 100);
}

TEST_F(Load, ReadsEveryTable) {
  const Experiment e = load(
      "name = \"all\"\nseed = 42\n[pipeline]\nplugin = \"baseline\"\n[adapter]\nplugin = \"lora\"\nrank = 16\n"
      "[model]\ndim = 64\nlayers = 6\nheads = 4\nkv_heads = 2\nffn_dim = 128\nvocab_size = 100\nfuture_tokens = 2\n"
      "rope_theta = 500000\nnorm_eps = 1e-6\nweights = \"run:base\"\nmax_sequence_length = 64\n"
      "[data]\nkind = \"tokens\"\nfile = \"ids.bin\"\ndtype = \"uint32\"\norder = \"sequential\"\n"
      "[train]\nepochs = 2\nbatch_size = 4\nsequence_length = 32\ngradient_accumulation = 2\nclip_norm = 0\n"
      "normalize = \"weights\"\n[optimizer]\nname = \"adamw\"\nlr = 1\nbetas = [0.5, 0.75]\neps = 1e-6\n"
      "weight_decay = 0\ndecay_norms = true\n[schedule]\nname = \"cosine\"\nwarmup_steps = 3\nmin_lr_ratio = 0\n"
      "[parallel]\nprocesses = 2\nstrategy = \"no_shard\"\nprecision = \"bf16\"\nactivation_checkpointing = \"full\"\n"
      "cpu_offload = false\ndevice = \"cpu\"\n[checkpoint]\nevery_steps = 5\nevery_minutes = 1.5\nkeep = 1\n"
      "[guard]\nloss_ratio = 5\nwindow = 10\ngrad_norm = 9.5\nmax_in_a_row = 3\n[log]\nevery_steps = 2\n"
      "database = \"x.db\"\ntensorboard = \"board\"\nprofile_step = 5\n");
  EXPECT_EQ(e.seed, 42);
  EXPECT_EQ(std::get<int64_t>(e.adapter.options.at("rank")), 16);
  EXPECT_EQ(e.model.kv_heads, 2);
  EXPECT_EQ(e.model.rope_theta, 500000.0);
  EXPECT_EQ(e.model.weights, "run:base");
  EXPECT_EQ(e.data.file, "ids.bin");
  EXPECT_EQ(e.data.order, DataOrder::sequential);
  EXPECT_EQ(e.train.steps, 0);
  EXPECT_EQ(e.train.epochs, 2.0);
  EXPECT_EQ(e.optimizer.lr, 1.0);
  EXPECT_EQ(e.optimizer.beta1, 0.5);
  EXPECT_EQ(e.optimizer.beta2, 0.75);
  EXPECT_TRUE(e.optimizer.decay_norms);
  EXPECT_EQ(e.schedule.warmup_steps, 3);
  EXPECT_EQ(e.parallel.strategy, Strategy::no_shard);
  EXPECT_EQ(e.parallel.precision, Precision::bf16);
  EXPECT_EQ(e.parallel.activation_checkpointing, 1);
  EXPECT_EQ(e.checkpoint.keep, 1);
  EXPECT_EQ(e.checkpoint.every_minutes, 1.5);
  EXPECT_EQ(e.guard.grad_norm, 9.5);
  EXPECT_EQ(e.log.database, "x.db");
  EXPECT_EQ(e.log.tensorboard, "board");
  EXPECT_EQ(e.log.profile_step, 5);
}

TEST_F(Load, ReportsAllErrorsAtOnceInLineOrder) {
  const std::string message = refused(
      "name = \"x\"\n[pipeline]\nplugin = \"baseline\"\n[model]\ndim = \"wide\"\nlayres = 6\nheads = 4\nvocab_size = "
      "9\n"
      "[data]\nkind = \"random\"\n[train]\nsteps = 0\nbatch_size = 2\nsequence_length = 32\n[optimiser]\nlr = 1\n");
  expect_in_order(message,
                  {"a.toml:4:2: [model] lacks layers",
                   "a.toml:5:7: [model] dim: found the string \"wide\", wanted an integer from 2 to 65536\n"
                   "    dim = \"wide\"\n"
                   "          ^\n",
                   "a.toml:6:1: unknown key \"layres\" in [model]\n    layres = 6\n    ^\n  did you mean \"layers\"?",
                   "a.toml:12:9: [train] steps: found the integer 0, wanted an integer from 1",
                   "a.toml:15:2: unknown table [optimiser]\n    [optimiser]\n     ^\n  did you mean [optimizer]?"});
}

TEST_F(Load, NamesTheTableOfAMisplacedKey) {
  expect_in_order(refused(with(small, "batch_size", "lr = 0.1\nbatch_size")),
                  {"unknown key \"lr\" in [train]", "\"lr\" is a key of [optimizer]"});
  expect_in_order(refused(small, {"parallel.stages=2"}),
                  {"unknown key \"stages\"", "the stages of pipeline parallelism are `pipeline`"});
  expect_in_order(refused(small + "[tokenizer]\nkind = \"byte\"\n[train.optimizer]\nlr = 0.1\n"),
                  {"unknown table [tokenizer]", "wanted [data.tokenizer]", "unknown table [train.optimizer]",
                   "wanted [optimizer]"});
}

TEST_F(Load, NamesMissingTablesAndTheirKeys) {
  const std::string message = refused("name = \"x\"\n");
  expect_in_order(message, {"a.toml:1:1: [pipeline] is missing, wanted the table with plugin",
                            "a.toml:1:1: [model] is missing, wanted the table with dim, layers and heads",
                            "a.toml:1:1: [data] is missing, wanted the table with kind",
                            "a.toml:1:1: [train] is missing, wanted the table with batch_size and sequence_length"});
  expect_in_order(refused(""), {"a.toml:1:1: name is missing"});
}

TEST_F(Load, RefusesNanAndInfinityEverywhere) {
  for (const std::string value : {"nan", "inf", "-inf", "+nan"}) {
    expect_in_order(refused(small + "[optimizer]\nlr = " + value + "\n"),
                    {"a.toml:16:6: [optimizer] lr: found the number", "wanted a number above 0"});
    refused(small + "[optimizer]\nbetas = [0.9, " + value + "]\n");
    refused(small + "[guard]\nloss_spike = " + value + "\n");
    refused(small + "[guard]\nwindow = " + value + "\n");
  }
}

TEST_F(Load, ReportsFoundAndWantedForAWrongType) {
  EXPECT_NE(refused(with(small, "steps = 10", "steps = 1e3")).find("found the number 1000.0, wanted an integer"),
            std::string::npos);
  EXPECT_NE(refused(with(small, "steps = 10", "steps = true")).find("found true, wanted an integer"),
            std::string::npos);
  EXPECT_NE(refused(with(small, "steps = 10", "steps = [1]")).find("found a list of length 1"), std::string::npos);
  EXPECT_NE(refused(with(small, "steps = 10", "steps = 2026-01-31")).find("found a date or time"), std::string::npos);
  EXPECT_NE(refused(with(small, "\"small\"", "{a = 1}")).find("found a table, wanted a string"), std::string::npos);
  EXPECT_NE(refused(with(text_experiment, "[\"corpus/**.py\"]", "[\"a\", 3]")).find("found the integer 3"),
            std::string::npos);
  EXPECT_NE(
      refused(small + "[optimizer]\nbetas = [0.9]\n").find("found a list of length 1, wanted a list of two numbers"),
      std::string::npos);
  EXPECT_NE(refused(with(small, "[train]", "[[train]]")).find("wanted [train] followed by its keys, only once"),
            std::string::npos);
  EXPECT_NE(refused("model = 3\n" + with(small, "[model]", "[modle]")).find("\"model\" is a table: wanted [model]"),
            std::string::npos);
}

TEST_F(Load, AcceptsAnIntegerAsANumber) { EXPECT_EQ(load(small + "[guard]\nloss_spike = 3\n").guard.loss_spike, 3.0); }

TEST_F(Load, ChecksTheRangesOfTheSchema) {
  for (const std::string line :
       {"[optimizer]\nbetas = [0.9, 1.0]", "[optimizer]\nbetas = [-0.1, 0.9]", "[optimizer]\nlr = 0",
        "[optimizer]\neps = 0.0", "[schedule]\nmin_lr_ratio = 1.5", "[checkpoint]\nkeep = 0",
        "[checkpoint]\nevery_minutes = -1", "[guard]\nwindow = 0", "[log]\nevery_steps = 0",
        "[parallel]\nprocesses = 0", "[parallel]\ntimeout_seconds = 0", "[log]\ndatabase = \"\""}) {
    EXPECT_NE(refused(small + line + "\n").find("wanted"), std::string::npos) << line;
  }
  refused(with(small, "dim = 64", "dim = 9223372036854775807"));
  refused("seed = -1\n" + small);
}

TEST_F(Load, SuggestsTheNearestChoice) {
  expect_in_order(refused(small + "[parallel]\nstrategy = \"ful_shard\"\n"),
                  {"found the string \"ful_shard\", wanted one of", "did you mean \"full_shard\"?"});
}

TEST_F(Load, KnowsStrategiesByTheirOtherNames) {
  for (const auto& [name, strategy] :
       {std::pair("ddp", Strategy::no_shard), {"fsdp", Strategy::full_shard}, {"zero2", Strategy::shard_grad_op}})
    EXPECT_EQ(load(small + "[parallel]\nstrategy = \"" + name + "\"\n").parallel.strategy, strategy) << name;
}

TEST_F(Load, SuggestsNothingForANameThatIsNoTypo) {
  for (const std::string line :
       {"[parallel]\ndevice = \"tpu\"", "[parallel]\ndevice = \"mps\"", "[parallel]\nprecision = \"fp64\"",
        "[parallel]\nprecision = \"tf32\"", "[parallel]\nprecision = \"bf16\"\nreduce = \"fp8\"",
        "[parallel]\nprecision = \"int8\"", "[schedule]\nname = \"exponential\"", "[parallel]\nstrategy = \"gspmd\""}) {
    const std::string message = refused(small + line + "\n");
    EXPECT_NE(message.find("wanted one of"), std::string::npos) << message;
    EXPECT_EQ(message.find("did you mean"), std::string::npos) << message;
  }
  EXPECT_EQ(refused(small, {"train.norm=l3"}).find("did you mean"), std::string::npos);
}

TEST_F(Load, AcceptsTheNamesOfOtherProgramsAsTheSameValues) {
  const Experiment e = load(small + "[parallel]\ndevice = \"gpu\"\nprecision = \"bfloat16\"\nreduce = \"float32\"\n");
  EXPECT_EQ(e.parallel.device, DeviceChoice::cuda);
  EXPECT_EQ(e.parallel.precision, Precision::bf16);
  EXPECT_EQ(load(small, {"parallel.precision=float16"}).parallel.precision, Precision::fp16);
  EXPECT_EQ(load(small, {"parallel.precision=float32"}).parallel.precision, Precision::fp32);
  EXPECT_EQ(load(small + "[optimizer]\nname = \"adam\"\n").optimizer.kind, OptimizerKind::adamw);
}

TEST_F(Load, AcceptsANameOrAShareOfBlocksToRecompute) {
  const auto share_of = [&](const std::string& value) {
    return load(small + "[parallel]\nactivation_checkpointing = " + value + "\n").parallel.activation_checkpointing;
  };
  EXPECT_EQ(share_of("\"none\""), 0);
  EXPECT_EQ(share_of("\"full\""), 1);
  EXPECT_EQ(share_of("0.25"), 0.25);
  EXPECT_EQ(share_of("1"), 1);
  for (const std::string value : {"1.5", "-0.1", "\"half\"", "true"})
    expect_in_order(refused(small + "[parallel]\nactivation_checkpointing = " + value + "\n"),
                    {"wanted \"none\", \"full\", or a number from 0 to 1"});
}

TEST_F(Load, RefusesPlannedValuesAsNotSupportedYet) {
  EXPECT_NE(refused(small + "[optimizer]\nname = \"lion\"\n").find("not supported yet"), std::string::npos);
}

TEST_F(Load, RefusesOffloadOnCpu) {
  expect_in_order(refused(small + "[parallel]\ncpu_offload = true\ndevice = \"cpu\"\n"),
                  {"a.toml:16:1: found cpu_offload on the CPU, wanted false", "in host memory anyway", "CUDA device"});
  const auto offload = [&](const std::string& value) {
    return load(small + "[parallel]\ncpu_offload = " + value + "\n").parallel.cpu_offload;
  };
  EXPECT_EQ(offload("true"), CpuOffload::trained);
  EXPECT_EQ(offload("false"), CpuOffload::none);
  EXPECT_EQ(offload("\"all\""), CpuOffload::all);
  for (const std::string value : {"\"some\"", "1"})
    expect_in_order(refused(small + "[parallel]\ncpu_offload = " + value + "\n"), {"wanted true, false, or \"all\""});
}

TEST_F(Load, PutsTheStateOfElementwiseOptimizersIntoAFile) {
  const std::string parallel = "[parallel]\noptimizer_offload = \"nvme\"\n", path = "offload_path = \"disk\"\n";
  const Experiment e = load(small + parallel + path);
  EXPECT_EQ(e.parallel.optimizer_offload, OptimizerOffload::nvme);
  EXPECT_EQ(e.parallel.offload_path, "disk");
  EXPECT_EQ(load(small + parallel + path + "device = \"cuda\"\n").parallel.offload_path, "disk");
  EXPECT_EQ(load(small).parallel.optimizer_offload, OptimizerOffload::none);
  expect_in_order(refused(small + parallel), {"a.toml:16:21: found optimizer_offload = \"nvme\" without offload_path",
                                              "set offload_path to a folder"});
  expect_in_order(refused(small + "[parallel]\noptimizer_offload = \"disk\"\n"), {"\"disk\"", "\"none\"", "\"nvme\""});
  expect_in_order(refused(small + parallel + path + "[optimizer]\nname = \"muon\"\n"),
                  {"a.toml:16:21: found optimizer_offload = \"nvme\" for optimizer \"muon\", wanted \"none\"",
                   "whole matrices", "\"adamw\" or \"sgd\"", "cpu_offload = true"});
  const std::string plain = "[optimizer]\nname = \"sgd\"\nmomentum = 0\n";
  expect_in_order(refused(small + parallel + path + plain), {"momentum = 0 in fp32 without train.ema", "remove it"});
  EXPECT_EQ(load(small + parallel + path + "precision = \"bf16\"\n" + plain).optimizer.momentum, 0)
      << "the masters are in the file";
  EXPECT_EQ(load(small + parallel + path + "[optimizer]\nname = \"sgd\"\n").optimizer.momentum, 0.9);
  expect_in_order(refused(small + "[parallel]\noptimizer_offload = \"none\"\n" + path),
                  {"a.toml:17:1: offload_path applies only to", "optimizer_offload = \"nvme\""});
}

TEST_F(Load, OffloadsOnlyActivationsOfRecomputedBlocks) {
  const std::string all = small + "[parallel]\nactivation_checkpointing = \"full\"\n";
  EXPECT_EQ(load(all + "activation_offload = true\noffload_path = \"here\"\n").parallel.offload_path, "here");
  expect_in_order(refused(small + "[parallel]\nactivation_offload = true\n"),
                  {"a.toml:16:22: found activation_offload = true for activation_checkpointing \"none\"",
                   "set activation_checkpointing = \"full\""});
  expect_in_order(refused(all + "offload_path = \"here\"\n"), {"a.toml:17:1: offload_path applies only to"});
  expect_in_order(refused(all + "activation_offload = true\noffload_path = \"here\"\ndevice = \"cuda\"\n"),
                  {"a.toml:18:1: offload_path applies only to", "to the CPU"});
  EXPECT_EQ(refused(all + "offload_path = \"here\"\ndevice = \"cuda\"\n").find("to the CPU"), std::string::npos)
      << "one mistake is reported once";
}

TEST_F(Load, RefusesNondeterministicKernelsOnCpu) {
  expect_in_order(refused(small + "[parallel]\ndeterministic = false\ndevice = \"cpu\"\n"),
                  {"a.toml:16:17: found deterministic = false", "always deterministic", "device = \"cuda\""});
  EXPECT_FALSE(load(small + "[parallel]\ndeterministic = false\n").parallel.deterministic);
}

TEST_F(Load, ReportsADuplicateKeyAndInvalidTomlAtTheirPlace) {
  expect_in_order(refused(small + "steps = 11\n"), {"a.toml:15:9:", "cannot redefine", "    steps = 11\n", "^"});
  expect_in_order(refused("name = \"x"), {"a.toml:1:", "invalid TOML"});
  expect_in_order(refused(small.substr(0, small.size() - 20)), {"a.toml:"});
}

TEST_F(Load, RefusesEveryByteThatCannotStartAKey) {
  for (char byte = 1; byte < 127; ++byte) {
    for (const std::string start : {"", "[", "[[", "a.", "[a.", "x = {"}) refused(start + byte + "\n");
  }
}

TEST_F(Load, RefusesAMissingFileAndAFolder) {
  for (const auto& file : {folder_ / "none.toml", folder_}) {
    const LoadRequest request{file, {}, known_plugin, {}};
    EXPECT_SAYS(test::refusal(ExitStatus::usage, [&] { load_experiment(request); }),
                file.string() + (file == folder_ ? " is a folder" : ": no such file"));
  }
}

TEST_F(Load, RefusesAFileAboveTheSizeLimit) {
  EXPECT_NE(refused(std::string(1 << 20, '#')).find("found 1048576 bytes, wanted at most 16384"), std::string::npos);
  EXPECT_NO_THROW(load(small + std::string(16384 - small.size(), '\n')));
  refused(small + std::string(16385 - small.size(), '\n'));
}

TEST_F(Load, RefusesInvalidUtf8WithItsOffset) {
  for (const std::string bytes : {"\xff", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    EXPECT_NE(refused("# caf\xc3\xa9\n# " + bytes + "\n" + small).find("a.toml:2:3: byte 10 is not valid UTF-8"),
              std::string::npos);
  }
  EXPECT_NE(refused(std::string("name = \"a\0b\"\n", 13)).find("byte 9 is NUL"), std::string::npos);
  EXPECT_NE(refused(with(text_experiment, "corpus", "a\\u0000b")).find("must not contain NUL"), std::string::npos);
  EXPECT_NO_THROW(load("# caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8e\x89\n" + small));
}

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST_F(Load, RefusesDeepKeysBeforeTheyReachTheParser) {
  const std::string deep = repeated("a.", 7000) + "a = 1\n";
  for (const std::string& text :
       {deep, "x = {" + deep + "}", "[" + repeated("a.", 100) + "a]\n", "s = \"\"\"x\"\"\"\"\nx = 1\n" + deep,
        "x = " + repeated("[", 1000), "x = " + repeated("{a.a.a=", 100), repeated("\"a\" . ", 100) + "a = 1"}) {
    EXPECT_NE(refused(text).find("nested more than 64 deep"), std::string::npos) << text.substr(0, 60);
  }
  EXPECT_NE(refused(small, {"x=\"\"\"y\"\"\"\"", deep.substr(0, 15000) + "=1"}).find("nested more than 64 deep"),
            std::string::npos);
  EXPECT_NE(refused(repeated("a.", 40) + "a = 1\n" + small).find("unknown table [a]"), std::string::npos);
  EXPECT_NO_THROW(load("# " + deep + small));
  EXPECT_NE(refused(with(small, "\"small\"", "\"" + repeated("a.", 100) + "\"")).find("name: found"),
            std::string::npos);
}

TEST_F(Load, PrintsNoTerminalControlCharactersOfAFile) {
  const std::string message = refused(with(small, "\"small\"",
                                           "'a\xc2\x9b"
                                           "2J\xe2\x80\xae'"));
  EXPECT_EQ(message.find("\xc2\x9b"), std::string::npos);
  EXPECT_EQ(message.find("\xe2\x80\xae"), std::string::npos);
  EXPECT_EQ(refused("# \x1b[2J\n" + small).find('\x1b'), std::string::npos);
}

TEST_F(Load, PutsTheCaretUnderTheCharacterInALongLine) {
  const std::string message = refused(with(small, "[data]", "[data] # " + repeated("\xc3\xa9", 300)) + "lr = {x = '" +
                                      repeated("y", 300) + "', z = nan}\n");
  expect_in_order(message, {"a.toml:15:1: unknown table [train.lr]", "\n    lr = ", "\n    ^"});
  const std::string far =
      refused(small + "[pipeline2]\n" + repeated(" ", 200) + "x = 1\n[optimizer]\n" + repeated(" ", 200) + "lr = -1\n");
  for (size_t at = 0, end; at < far.size(); at = end + 1) {
    end = std::min(far.find('\n', at), far.size());
    EXPECT_LE(end - at, 120u);
  }
}

TEST_F(Load, FailsWithThePluginStatusOnlyIfAllErrorsArePluginFailures) {
  const std::string absent = with(small, "baseline", "bseline");
  expect_in_order(refused(absent, {}, ExitStatus::plugin),
                  {"a.toml:3:10: no pipeline \"bseline\"", "^", "  searched: somewhere"});
  expect_in_order(refused(absent + "x = 1\n", {}, ExitStatus::usage), {"no pipeline", "unknown key \"x\""});
  expect_in_order(refused(with(small, "baseline", "../x"), {}, ExitStatus::usage), {"\"../x\" is no name of a plugin"});
}

TEST_F(Load, PropagatesOtherFailuresOfAPlugin) {
  const auto broken = [](PluginKind, const std::string&) -> PluginDescription {
    throw Error(ExitStatus::storage, "disk full");
  };
  test::refusal(ExitStatus::storage, [&] { load_experiment({write("a.toml", small), {}, broken, {}}); });
}

TEST_F(Load, ReportsAnErrorInLessThanATenthOfASecond) {
  write("a.toml", small + "[optimiser]\nlr = 1\n" + repeated("# filler\n", 1600));
  const double before = processor_seconds();
  EXPECT_THROW(load_experiment({folder_ / "a.toml", {}, known_plugin, {}}), Error);
  EXPECT_LT(processor_seconds() - before, 0.1);
}

}  // namespace
}  // namespace wmtp
