// The schema's tables of the run: [train], [optimizer], [schedule], [parallel], [checkpoint], [guard], [log], [sweep].
#include "experiment/schema.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "experiment/schema_key.hpp"

namespace wmtp {
namespace {

SchemaTable head_table() {
  Key extends;
  extends.name = "extends";
  extends.help =
      "experiment file to inherit: tables are merged, other values replaced; its paths are relative to itself. It may "
      "lack required keys";
  extends.get = [](const Experiment&) { return std::nullopt; };  // the experiment is the merged one
  extends.set = [](Experiment&, const Value&) {};
  extends.is_path(PathKind::path).not_in_identity();
  return {
      "",
      "Keys above all tables.",
      {extends,
       key("name", AT(name),
           "name of the run and its folder: at most 64 letters, digits, `.`, `_` and `-`, the first a letter or digit")
           .required()
           .not_in_identity(),
       key("seed", AT(seed), "seed of all random numbers").at_least(0)}};
}

Key head_weights_key() {
  Key key = wmtp::key("head_weights", AT(train.head_weights),
                      "factor on each head's loss in this mean, one for each of `model.future_tokens`; logged losses "
                      "have none. A head of weight 0 does not learn, but decays. Or points of the run, linear in "
                      "between, of which two at one step are a jump: "
                      "`[{step = 1, weights = [1, 0.3]}, {step = 500, weights = [1, 0.1]}]`")
                .range(0, 1e9)
                .defaults_to("1 for each head");
  ValueRule step, weights = key.rule;
  step.type = ValueType::integer;
  step.min = 1;
  step.max = 1e12;
  key.rule.fields = {{"step", step}, {"weights", weights}};
  key.rule.required_fields = key.rule.fields.size();
  key.get = [](const Experiment& e) -> std::optional<Value> {
    if (!e.train.head_weights_later.empty()) {
      std::vector<Fields> points;
      for (const HeadWeightsPoint& point : e.train.head_weights_later)
        points.push_back({{}, {{"step", double(point.step)}}, {{"weights", point.weights}}});
      return Value(points);
    }
    const std::vector<double>& weights = e.train.head_weights;
    // Explicit defaults have the same identity as none.
    if (std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 1; })) return std::nullopt;
    return Value(weights);
  };
  key.set = [](Experiment& e, const Value& value) {
    e.train.head_weights_later.clear();
    if (const auto* weights = std::get_if<std::vector<double>>(&value)) {
      e.train.head_weights = *weights;
      return;
    }
    for (const Fields& point : std::get<std::vector<Fields>>(value))
      e.train.head_weights_later.push_back({int64_t(point.numbers.at("step")), point.lists.at("weights")});
    e.train.head_weights = e.train.head_weights_later.front().weights;
  };
  return key;
}

SchemaTable train_table() {
  Key accumulation = key("gradient_accumulation", AT(train.gradient_accumulation), "micro-batches of an optimizer step")
                         .range(1, 1 << 20);
  accumulation.get = [](const Experiment& e) -> std::optional<Value> {
    if (e.train.global_batch_size > 0) return std::nullopt;  // the number of ranks determines it
    return Value(e.train.gradient_accumulation);
  };
  return {
      "train",
      "Requires exactly one of `steps` and `epochs`.",
      {key("steps", AT(train.steps), "optimizer steps")
           .range(1, 1e12)
           .defaults_to("required without `epochs`")
           .unset_when_empty(),
       key("epochs", AT(train.epochs),
           "passes over the training data, may be a fraction; the last step is filled from the next pass; not for "
           "`random` data")
           .above(0)
           .defaults_to("required without `steps`")
           .unset_when_empty(),
       key("batch_size", AT(train.batch_size), "sequences of a micro-batch on each rank").required().range(1, 1 << 20),
       key("sequence_length", AT(train.sequence_length), "tokens of a sequence").required().range(2, 1 << 20),
       accumulation,
       key("global_batch_size", AT(train.global_batch_size),
           "instead of `gradient_accumulation`: sequences of an optimizer step over all ranks, a multiple of "
           "`batch_size` x ranks; the same experiment on any number of ranks, but `rho1` and others compare the "
           "tokens of a micro-batch, of `batch_size` x ranks sequences")
           .range(1, int64_t{1} << 32)
           .defaults_to("`batch_size` x `gradient_accumulation` x ranks")
           .unset_when_empty(),
       key("clip_norm", AT(train.clip_norm), "maximum norm, to which a larger gradient is scaled down; 0: no clipping")
           .at_least(0),
       key("norm", AT(train.norm),
           "gradient norm for clipping, guard and log: root of the sum of squares, sum of magnitudes, or largest "
           "magnitude"),
       key("normalize", AT(train.normalize),
           "divisor of a head's weighted loss: its valid tokens in the step, or the sum of their weights (with several "
           "micro-batches, another forward pass); the loss of a step is the mean over the heads with targets"),
       head_weights_key(),
       key("detach_heads", AT(train.detach_heads),
           "whether the trunk and the embedding learn from head 1 only, while heads 2 and up train on what they "
           "compute; the final norm and the output layer, which all heads share, learn from all")
           .defaults_to("`false`")
           .unset_when_empty(),
       key("ema", AT(train.ema),
           "decay rate, such as 0.999, of an exponential moving average of the trained parameters, saved at the end "
           "in `model-ema/` next to `model/`; it begins with the initial values, of which a share of `ema` to the "
           "power of the steps remains, and is not validated; 0: none")
           .range(0, 1)
           .below(1)
           .unset_when_empty()}};
}

Key optimizer_groups() {
  Key key;
  key.name = "groups";
  key.help =
      "settings of parameters: `match`, a shell pattern of names such as `layers.*norm.weight`; `lr_scale`, a factor "
      "on the learning rate; `weight_decay`. The first match applies";
  ValueRule match, number;
  match.may_be_empty = false;
  number.type = ValueType::number;
  number.min = 0;
  key.rule.type = ValueType::tables;
  key.rule.fields = {{"match", match}, {"lr_scale", number}, {"weight_decay", number}};
  key.get = [](const Experiment& e) -> std::optional<Value> {
    if (e.optimizer.groups.empty()) return std::nullopt;
    std::vector<Fields> tables;
    for (const OptimizerGroup& group : e.optimizer.groups) {
      Fields& fields = tables.emplace_back();
      fields.texts["match"] = group.match;
      fields.numbers["lr_scale"] = group.lr_scale;
      if (group.weight_decay) fields.numbers["weight_decay"] = *group.weight_decay;
    }
    return Value(tables);
  };
  key.set = [](Experiment& e, const Value& value) {
    e.optimizer.groups.clear();
    for (const Fields& fields : std::get<std::vector<Fields>>(value)) {
      OptimizerGroup& group = e.optimizer.groups.emplace_back();
      group.match = fields.texts.at("match");
      if (const auto found = fields.numbers.find("lr_scale"); found != fields.numbers.end())
        group.lr_scale = found->second;
      if (const auto found = fields.numbers.find("weight_decay"); found != fields.numbers.end())
        group.weight_decay = found->second;
    }
  };
  return key;
}

SchemaTable optimizer_table() {
  Key betas = key("betas", AT(optimizer.eps), "decay rates of the first and second moment").range(0, 1).below(1);
  betas.rule.type = ValueType::numbers;
  betas.rule.count = 2;
  betas.get = [](const Experiment& e) -> std::optional<Value> {
    if (!traits_of(e.optimizer.kind).has_betas) return std::nullopt;
    return Value(std::vector<double>{e.optimizer.beta1, e.optimizer.beta2});
  };
  betas.set = [](Experiment& e, const Value& value) {
    const auto& both = std::get<std::vector<double>>(value);
    e.optimizer.beta1 = both[0];
    e.optimizer.beta2 = both[1];
  };
  Key eps = key("eps", AT(optimizer.eps), "added to the square root of the second moment").above(0);
  eps.get = [](const Experiment& e) -> std::optional<Value> {
    if (!traits_of(e.optimizer.kind).has_eps) return std::nullopt;
    return Value(e.optimizer.eps);
  };
  Key momentum = key("momentum", AT(optimizer.momentum), "`muon`, `sgd`: decay rate of the sum of gradients")
                     .range(0, 1)
                     .below(1)
                     .defaults_to("0.95 for `muon`, 0.9 for `sgd`");
  momentum.get = [](const Experiment& e) -> std::optional<Value> {
    if (!traits_of(e.optimizer.kind).momentum) return std::nullopt;
    return Value(e.optimizer.momentum);
  };
  return {
      "optimizer",
      "The defaults of `lr`, `betas`, `weight_decay`, `train.clip_norm` and `schedule.min_lr_ratio` are those of LLaMA "
      "7B (arXiv 2302.13971).",
      {key("name", AT(optimizer.kind),
           "`adamw` with decoupled weight decay (0: Adam); `muon`: orthogonalized momentum for the matrices of "
           "blocks, with updates as large as AdamW's (arXiv 2502.16982), and AdamW for all other parameters; refused "
           "if no such matrix is trained, as with `lora`; `sgd` with momentum")
           .also({{"adam", "adamw"}})
           .planned({"adamw8bit", "adafactor", "lion", "shampoo", "soap"}),
       key("lr", AT(optimizer.lr), "peak learning rate").above(0),
       key("value_head_lr", AT(optimizer.value_head_lr), "peak learning rate of value heads")
           .above(0)
           .defaults_to("`lr`"),
       betas, eps, momentum,
       key("weight_decay", AT(optimizer.weight_decay),
           "decoupled weight decay of all trained matrices, also embeddings and LoRA's A and B")
           .at_least(0),
       key("decay_norms", AT(optimizer.decay_norms), "whether norms and biases decay too"), optimizer_groups()}};
}

SchemaTable schedule_table() {
  Key decay = key("decay", AT(schedule.decay), "`wsd`: a line or half a cosine");
  decay.get = [](const Experiment& e) -> std::optional<Value> {
    if (e.schedule.decay == ScheduleConfig().decay) return std::nullopt;
    return to_value(e.schedule.decay);
  };
  decay.defaults_to("`\"linear\"`");
  Key cycles =
      key("cycles", AT(schedule.cycles), "`cosine`: equal decays after the warm-up (warm restarts, arXiv 1608.03983)")
          .range(1, 1e6)
          .defaults_to("1");
  cycles.get = [](const Experiment& e) -> std::optional<Value> {
    if (e.schedule.cycles == 1) return std::nullopt;
    return Value(e.schedule.cycles);
  };
  return {"schedule",
          "",
          {key("name", AT(schedule.name),
               "after the warm-up: constant, a line or half a cosine down to the last step, or warmup-stable-decay "
               "(`wsd`)"),
           key("warmup_steps", AT(schedule.warmup_steps), "steps of the linear warm-up, fewer than `train.steps`")
               .range(0, 1e12),
           key("stable_steps", AT(schedule.stable_steps), "steps at the peak learning rate after the warm-up")
               .range(1, 1e12)
               .defaults_to("required by and only for `wsd`")
               .unset_when_empty(),
           decay, cycles,
           key("min_lr_ratio", AT(schedule.min_lr_ratio),
               "final learning rate of `linear`, `cosine` and `wsd`, as a fraction of the peak")
               .range(0, 1)}};
}

/// Written as false, true or "all".
Key cpu_offload() {
  Key key;
  key.name = "cpu_offload";
  key.help =
      "whether host memory holds the master shards of trained parameters and the optimizer state; with `\"all\"` "
      "also the shards of frozen parameters; requires a CUDA `device`";
  key.rule.type = ValueType::flag_or_text;
  key.rule.choices = {"all"};
  key.get = [](const Experiment& e) {
    const CpuOffload offload = e.parallel.cpu_offload;
    return offload == CpuOffload::all ? Value(std::string("all")) : Value(offload == CpuOffload::trained);
  };
  key.set = [](Experiment& e, const Value& value) {
    const bool* const flag = std::get_if<bool>(&value);
    e.parallel.cpu_offload = !flag ? CpuOffload::all : *flag ? CpuOffload::trained : CpuOffload::none;
  };
  return key;
}

SchemaTable parallel_table() {
  Key checkpointing = key("activation_checkpointing", AT(parallel.activation_checkpointing),
                          "trunk blocks that recompute activations in the backward pass: none, all, or this share of "
                          "the trained blocks, from the first")
                          .one_of({"none", "full"})
                          .range(0, 1);
  checkpointing.rule.type = ValueType::text_or_number;
  checkpointing.get = [](const Experiment& e) {
    const double share = e.parallel.activation_checkpointing;
    if (share == 0 || share == 1) return Value(std::string(share == 0 ? "none" : "full"));
    return Value(share);
  };
  checkpointing.set = [](Experiment& e, const Value& value) {
    const auto* name = std::get_if<std::string>(&value);
    e.parallel.activation_checkpointing = name ? double(*name == "full") : std::get<double>(value);
  };
  Key groups =
      key("shard_group_size", AT(parallel.shard_group_size),
          "consecutive ranks that share one copy of the model, a divisor of the number of ranks; `host`: the ranks of "
          "a host, equally many on each")
          .one_of({"host"})
          .range(1, 65536)
          .defaults_to("required by and only for `hybrid_shard`")
          .not_in_identity();
  groups.rule.type = ValueType::text_or_integer;
  groups.get = [](const Experiment& e) -> std::optional<Value> {
    const int64_t size = e.parallel.shard_group_size;
    if (size == 0) return std::nullopt;
    return size == host_shard_groups ? Value(std::string("host")) : Value(size);
  };
  groups.set = [](Experiment& e, const Value& value) {
    const auto* size = std::get_if<int64_t>(&value);
    e.parallel.shard_group_size = size ? *size : host_shard_groups;
  };
  return {
      "parallel",
      "",
      {key("processes", AT(parallel.processes), "number of ranks").range(1, 65536).not_in_identity(),
       key("strategy", AT(parallel.strategy),
           "`full_shard`: parameters, gradients and optimizer state are sharded over all ranks; `shard_grad_op`: "
           "gathered parameters are kept for the whole step; `shard_optimizer`: also, each rank keeps its whole "
           "gradient; `no_shard`: nothing is sharded; `hybrid_shard`: as `full_shard` within groups of "
           "`shard_group_size` ranks")
           .also({{"ddp", "no_shard"},
                  {"zero1", "shard_optimizer"},
                  {"zero2", "shard_grad_op"},
                  {"zero3", "full_shard"},
                  {"fsdp", "full_shard"},
                  {"hsdp", "hybrid_shard"}})
           .not_in_identity(),
       groups,
       key("sequence", AT(parallel.sequence),
           "ranks that read the same sequences and divide their positions, in attention their heads; a divisor of "
           "the number of ranks, of `kv_heads` and of `train.sequence_length`; `batch_size` is per such group")
           .range(1, 65536)
           .not_in_identity(),
       key("tensor", AT(parallel.tensor),
           "tensor parallelism: consecutive ranks that divide every block; a divisor of `ffn_dim`. `sequence` x "
           "`tensor` divides the number of ranks, `kv_heads` and `train.sequence_length`")
           .range(1, 65536)
           .not_in_identity(),
       key("pipeline", AT(parallel.pipeline),
           "pipeline parallelism (1F1B): sections of the model, each on as many ranks, to which the other keys "
           "apply; a divisor of the number of ranks. It needs a high `train.gradient_accumulation`")
           .range(1, 65536)
           .not_in_identity(),
       key("precision", AT(parallel.precision),
           "number format of the computation; trained parameters remain fp32, frozen ones, as of an adapter's base, "
           "are rounded to it, also in the saved model; `fp16` is slow on CPUs"),
       key("reduce", AT(parallel.reduce),
           "number format in which ranks reduce gradients; `bf16` requires a `precision` other than `fp32`, `fp16` "
           "requires `fp16`"),
       key("replicate_frozen", AT(parallel.replicate_frozen),
           "whether every rank holds all frozen parameters: more memory, no gathering")
           .not_in_identity(),
       checkpointing,
       key("activation_offload", AT(parallel.activation_offload),
           "whether the inputs of recomputed blocks wait in host memory, on the CPU in a temporary file; requires "
           "`activation_checkpointing`")
           .not_in_identity(),
       key("offload_path", AT(parallel.offload_path),
           "folder of the temporary files of `optimizer_offload`, and on the CPU of `activation_offload`; not in "
           "memory, as `/dev/shm` is")
           .is_path(PathKind::path)
           .defaults_to("required by `optimizer_offload`, else `TMPDIR` or `/tmp`")
           .unset_when_empty()
           .not_in_identity(),
       cpu_offload().not_in_identity(),
       key("optimizer_offload", AT(parallel.optimizer_offload),
           "`nvme`: the optimizer's moments, the average of `train.ema` and in 16 bits the master parameters are in a "
           "temporary file of each rank in `offload_path`. Not with `muon`")
           .not_in_identity(),
       key("device", AT(parallel.device), "`auto`: CUDA if the host has a device for each local rank, else the CPU")
           .also({{"gpu", "cuda"}})
           .not_in_identity(),
       key("deterministic", AT(parallel.deterministic),
           "whether CUDA uses only deterministic kernels; with `false`, a repeated or resumed run differs in the "
           "last bits")
           .not_in_identity(),
       key("peak_tflops", AT(parallel.peak_tflops),
           "peak of a rank's device in this precision, in TFLOP/s, for `perf/mfu`; 0: the vendor's figure or, if "
           "unknown, a measured one")
           .range(0, 1e6)
           .not_in_identity(),
       key("oversubscribe", AT(parallel.oversubscribe),
           "whether `wmtp-host run` may start more than 8 ranks per usable core")
           .not_in_identity(),
       key("timeout_seconds", AT(parallel.timeout_seconds),
           "maximum wait for another rank, in seconds, also at the rendezvous")
           .range(1, 86400)
           .not_in_identity()}};
}

SchemaTable checkpoint_table() {
  SchemaTable table{
      "checkpoint",
      "When the training state is saved, to resume from; the final state always is.",
      {key("every_steps", AT(checkpoint.every_steps), "steps between checkpoints; 0: not by steps").range(0, 1e12),
       key("every_epochs", AT(checkpoint.every_epochs),
           "passes over the training data between checkpoints, may be a fraction; 0: not by epochs")
           .range(0, 1e6),
       key("every_minutes", AT(checkpoint.every_minutes),
           "minimum time between checkpoints, in minutes; 0: not by time")
           .range(0, 1e6),
       key("keep", AT(checkpoint.keep), "newest checkpoints kept").range(1, 1e6),
       key("keep_best", AT(checkpoint.keep_best),
           "whether to save a checkpoint at each validation with a new lowest loss of head 1 and to keep the best, "
           "`RUN@best`")}};
  table.in_identity = false;
  return table;
}

SchemaTable guard_table() {
  return {"guard",
          "Skips steps with unusual losses or gradients: they change no parameter. Steps that are not finite are "
          "always skipped.",
          {key("loss_spike", AT(guard.loss_spike),
               "maximum distance of a loss above the mean of the last `window` accepted losses, in standard "
               "deviations, such as 6; a jump of `train.head_weights` is one, too; 0: off")
               .at_least(0),
           key("spike_floor", AT(guard.spike_floor),
               "with `loss_spike`: minimum distance above the mean for a skip, in units of the loss")
               .at_least(0),
           key("loss_ratio", AT(guard.loss_ratio), "maximum loss as a multiple of that mean, such as 5; 0: off")
               .range(0, 1e6)
               .defaults_to("`0.0`")
               .unset_when_empty(),
           key("window", AT(guard.window),
               "accepted losses in that mean; with fewer, no step is skipped for its loss")
               .range(1, 1e6),
           key("grad_norm", AT(guard.grad_norm), "maximum norm of the gradient before clipping; 0: off").at_least(0),
           key("max_in_a_row", AT(guard.max_in_a_row), "consecutive skipped steps after which the run ends")
               .range(1, 1e9)}};
}

SchemaTable log_table() {
  SchemaTable table{
      "log",
      "The run log, an SQLite database.",
      {key("every_steps", AT(log.every_steps),
           "steps between logged steps; the first one, also after a resume, and the last one are always logged")
           .range(1, 1e12),
       key("samples", AT(log.samples),
           "sequences of each validation that are logged token by token, at most `train.batch_size`; 0: none")
           .range(0, 1e6),
       key("prompts", AT(log.prompts),
           "texts that the model continues greedily at each validation. Rank 0 needs host memory for the model in "
           "fp32")
           .defaults_to("none")
           .unset_when_empty(),
       key("prompt_tokens", AT(log.prompt_tokens), "maximum number of tokens after each prompt").range(1, 1e6),
       key("database", AT(log.database), "file of the database, relative to the working directory").not_empty(),
       key("tensorboard", AT(log.tensorboard),
           "folder of TensorBoard event files, a subfolder for each run, relative to the working directory; empty: "
           "none"),
       key("wandb", AT(log.wandb),
           "whether Weights & Biases follows the run while it trains, with the package of the Python that "
           "`WMTP_PYTHON` names"),
       key("trackio", AT(log.trackio), "the same for Trackio"),
       key("mlflow", AT(log.mlflow),
           "tracking URI of MLflow, such as `http://127.0.0.1:5000`, that receives the run when it ends; empty: none"),
       key("profile_step", AT(log.profile_step),
           "step of which every rank R writes `profile-000R.json` in the run's folder: a Chrome trace of its "
           "phases, operators and exchanges between ranks, on CUDA also of kernels and copies; 0: none")
           .range(0, 1e12),
       key("heads_every_steps", AT(log.head_gradients_every),
           "steps between comparisons of the heads' gradients at the trunk's output, a multiple of `every_steps`: the "
           "metrics `heads/`, which docs/heads.md explains. With any number above 0 the `samples` of each validation "
           "have the comparison with head 1 at each token; 0: none")
           .range(0, 1e12)}};
  table.in_identity = false;
  return table;
}

SchemaTable sweep_table() {
  SchemaTable table{
      "sweep",
      "Several runs, the members. Each key is a key of the experiment with a list of values (`seed = [1, 2, 3]`, "
      "`optimizer.lr = [1e-3, 3e-4]`); the members are all combinations, at most 1,000, the first key varying "
      "slowest. Each table of the list `[[sweep.members]]` sets several keys together; `--set \"sweep.seed=[4, 5]\"` "
      "replaces a list. `wmtp-host run` trains each stage once, then one member at a time, or with `--jobs K` K at a "
      "time, each on a share of the cores, of which there must be one for each process; it skips members with a "
      "finished run, and prints a table at the end.",
      {}};
  table.read_elsewhere = true;  // experiment/load/sweep.hpp
  table.in_identity = false;
  return table;
}

/// The tables of each name that was asked for; they stay where they are.
const std::vector<SchemaTable>& kept_reference_tables(const std::string& name) {
  static std::mutex one_at_a_time;
  static std::map<std::string, std::vector<SchemaTable>> kept;
  const std::scoped_lock lock(one_at_a_time);
  std::vector<SchemaTable>& tables = kept[name];
  if (tables.empty()) tables = reference_tables(name);
  return tables;
}

}  // namespace

Key& Key::unset_when_empty() {
  get = [inner = get](const Experiment& e) -> std::optional<Value> {
    const auto value = inner(e);
    if (!value) return value;
    const auto* integer = std::get_if<int64_t>(&*value);
    const auto* number = std::get_if<double>(&*value);
    const auto* text = std::get_if<std::string>(&*value);
    const auto* texts = std::get_if<std::vector<std::string>>(&*value);
    const auto* numbers = std::get_if<std::vector<double>>(&*value);
    const auto* flag = std::get_if<bool>(&*value);
    const bool empty = (flag && !*flag) || (integer && *integer == 0) || (number && *number == 0) ||
                       (text && text->empty()) || (texts && texts->empty()) || (numbers && numbers->empty());
    return empty ? std::nullopt : value;
  };
  return *this;
}

const std::vector<SchemaTable>& schema() {
  static const std::vector<SchemaTable> tables = [] {
    std::vector<SchemaTable> all{head_table()};
    for (const std::vector<SchemaTable>& part :
         {model_tables(),
          data_tables(),
          {train_table(), optimizer_table(), schedule_table(), parallel_table(), checkpoint_table(), validation_table(),
           guard_table(), log_table(), sweep_table()}})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return tables;
}

bool applies_to(const std::vector<DataKind>& kinds, DataKind kind) {
  return kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

std::vector<const SchemaTable*> tables_of(const Experiment& e) {
  std::vector<const SchemaTable*> tables;
  for (const SchemaTable& table : schema()) {
    tables.push_back(&table);
    if (table.name != "references") continue;
    for (const auto& [name, frozen] : e.references)
      for (const SchemaTable& one : kept_reference_tables(name)) tables.push_back(&one);
  }
  return tables;
}

const SchemaTable* find_table(const std::string& name) {
  const std::string prefix = reference_table("");
  const std::string reference = name.starts_with(prefix) ? name.substr(prefix.size()) : "";
  const std::string reference_name = reference.substr(0, reference.find('.'));
  const auto& tables = is_reference_name(reference_name) ? kept_reference_tables(reference_name) : schema();
  const auto found = std::find_if(tables.begin(), tables.end(), [&](const SchemaTable& t) { return t.name == name; });
  return found == tables.end() ? nullptr : &*found;
}

const Key* find_key(const SchemaTable& table, const std::string& key) {
  const auto found = std::find_if(table.keys.begin(), table.keys.end(), [&](const Key& k) { return k.name == key; });
  return found == table.keys.end() ? nullptr : &*found;
}

std::string key_path(const std::string& table, const std::string& key) {
  return table.empty() ? key : table + "." + key;
}

}  // namespace wmtp
