// See schema.hpp. One line for each key; its type follows from the member that it sets.
#include "core/experiment/schema.hpp"

#include <algorithm>

#include "core/experiment/data_schema.hpp"
#include "core/experiment/schema_key.hpp"
#include "core/experiment/schema_models.hpp"

namespace wmtp {
namespace {

SchemaTable head_table() {
  return {"",
          "Stand above all tables.",
          {key("name", AT(name), "name of the run: letters, digits, `.`, `_` and `-`").required().not_in_identity(),
           key("seed", AT(seed), "all that is drawn follows from it").at_least(0)}};
}

SchemaTable train_table() {
  return {"train",
          "How long and in which portions: exactly one of `steps` and `epochs`.",
          {key("steps", AT(train.steps), "optimizer steps")
               .range(1, 1e12)
               .defaults_to("required without `epochs`")
               .unset_when_empty(),
           key("epochs", AT(train.epochs), "times round the data; not for `random`")
               .above(0)
               .defaults_to("required without `steps`")
               .unset_when_empty(),
           key("batch_size", AT(train.batch_size), "sequences per rank and micro-batch").required().range(1, 1 << 20),
           key("sequence_length", AT(train.sequence_length), "tokens of a sequence").required().range(2, 1 << 20),
           key("gradient_accumulation", AT(train.gradient_accumulation), "micro-batches of a step").range(1, 1 << 20),
           key("clip_norm", AT(train.clip_norm), "largest norm of the gradient; 0 is off").at_least(0),
           key("norm", AT(train.norm),
               "which norm of the gradient is clipped, guarded and logged: the root of its squares, the sum of its "
               "magnitudes, or the largest of them"),
           key("normalize", AT(train.normalize),
               "what a head's loss is divided by: its valid tokens, or its weights; a step's loss is the mean of the "
               "heads'")
               .one_of({"tokens", "weights"})}};
}

SchemaTable optimizer_table() {
  Key betas = key("betas", AT(optimizer.eps), "decay of the moments").range(0, 1).below(1);
  betas.rule.type = ValueType::numbers;
  betas.rule.count = 2;
  betas.get = [](const Experiment& e) { return Value(std::vector<double>{e.optimizer.beta1, e.optimizer.beta2}); };
  betas.set = [](Experiment& e, const Value& value) {
    const auto& both = std::get<std::vector<double>>(value);
    e.optimizer.beta1 = both[0];
    e.optimizer.beta2 = both[1];
  };
  return {"optimizer",
          "AdamW.",
          {key("name", AT(optimizer.name), "which optimizer")
               .one_of({"adamw"})
               .later({"adam", "sgd", "adamw8bit", "adafactor", "lion", "muon", "shampoo", "soap"}),
           key("lr", AT(optimizer.lr), "highest learning rate").above(0),
           key("value_head_lr", AT(optimizer.value_head_lr), "the same of value heads").above(0).defaults_to("`lr`"),
           betas, key("eps", AT(optimizer.eps), "added to the root of the second moment").above(0),
           key("weight_decay", AT(optimizer.weight_decay),
               "decoupled weight decay, of all matrices that train: embeddings and LoRA's A and B among them")
               .at_least(0),
           key("decay_norms", AT(optimizer.decay_norms), "whether norms and biases decay too")}};
}

SchemaTable schedule_table() {
  return {
      "schedule",
      "The learning rate over the steps.",
      {key("name", AT(schedule.name), "shape after the warm-up").one_of({"constant", "cosine", "wsd"}),
       key("warmup_steps", AT(schedule.warmup_steps), "steps over which it rises; less than `train.steps`")
           .range(0, 1e12),
       key("stable_steps", AT(schedule.stable_steps),
           "`wsd` (warm-up, stable, decay): steps at the full rate; over those that are left it falls in a line")
           .range(1, 1e12)
           .defaults_to("required by `wsd`, which it goes with")
           .unset_when_empty(),
       key("min_lr_ratio", AT(schedule.min_lr_ratio), "last learning rate of cosine and wsd, as a part of the highest")
           .range(0, 1)}};
}

SchemaTable parallel_table() {
  Key checkpointing = key("activation_checkpointing", AT(parallel.activation_checkpointing),
                          "which trunk blocks are computed again for the backward pass: none, all, or the first of "
                          "them, as a share of those that train")
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
  return {
      "parallel",
      "Ranks, and what each of them holds.",
      {key("processes", AT(parallel.processes), "ranks").range(1, 65536).not_in_identity(),
       key("strategy", AT(parallel.strategy),
           "what is sharded: everything, all but the parameters, nothing, or everything in each group of ranks")
           .not_in_identity(),
       key("shard_group_size", AT(parallel.shard_group_size),
           "neighbouring ranks that hold one model between them under `hybrid_shard`; a divisor of the ranks")
           .range(1, 65536)
           .defaults_to("required by `hybrid_shard`, which it goes with")
           .unset_when_empty()
           .not_in_identity(),
       key("precision", AT(parallel.precision),
           "of the computation; parameters stay fp32; `fp16` scales the loss by itself, and is slow on a CPU"),
       key("reduce", AT(parallel.reduce),
           "in which gradients travel between ranks; `bf16` goes with a `precision` other than fp32")
           .one_of({"fp32", "bf16"}),
       key("replicate_frozen", AT(parallel.replicate_frozen),
           "whether every rank holds the frozen parameters whole: more memory, and nothing of them to gather")
           .not_in_identity(),
       checkpointing,
       key("cpu_offload", AT(parallel.cpu_offload),
           "whether the master shards of what trains, and its optimizer's state, lie in the host's memory; for a CUDA "
           "`device` alone, whose memory it spares")
           .not_in_identity(),
       key("device", AT(parallel.device),
           "where it runs; `auto` is a CUDA device for every local rank, or the CPU where there are fewer devices")
           .one_of({"auto", "cpu", "cuda"})
           .not_in_identity(),
       key("oversubscribe", AT(parallel.oversubscribe),
           "whether `wmtp-host run` starts more than 8 ranks on each usable core of this machine")
           .not_in_identity(),
       key("timeout_seconds", AT(parallel.timeout_seconds), "longest wait for another rank, at the rendezvous too")
           .range(1, 86400)
           .not_in_identity()}};
}

SchemaTable checkpoint_table() {
  SchemaTable table{
      "checkpoint",
      "What is saved for resuming; the end is always saved.",
      {key("every_steps", AT(checkpoint.every_steps), "steps between saves; 0: none by steps").range(0, 1e12),
       key("every_minutes", AT(checkpoint.every_minutes),
           "a save at the first step that ends so long after the last one; 0: none by time")
           .range(0, 1e6),
       key("keep", AT(checkpoint.keep), "newest ones that stay").range(1, 1e6)}};
  table.in_identity = false;
  return table;
}

SchemaTable guard_table() {
  return {
      "guard",
      "Steps that are skipped: their gradients change nothing. Non-finite ones always are; the others only where a "
      "limit is "
      "given, since a skipped step is data that is not learned from.",
      {key("loss_spike", AT(guard.loss_spike),
           "how many standard deviations a loss may be above the mean of the last `window` accepted losses, 6 for "
           "instance; 0 is off")
           .at_least(0),
       key("spike_floor", AT(guard.spike_floor),
           "with `loss_spike`: a loss that is less than this above the mean is never skipped, however small the "
           "deviation is; in units of the loss")
           .at_least(0),
       key("window", AT(guard.window),
           "with `loss_spike`: accepted losses of mean and deviation; silent until there are so many")
           .range(1, 1e6),
       key("grad_norm", AT(guard.grad_norm), "largest norm before clipping; 0 is off").at_least(0),
       key("max_in_a_row", AT(guard.max_in_a_row), "skipped steps in a row after which the run ends").range(1, 1e9)}};
}

SchemaTable log_table() {
  SchemaTable table{
      "log",
      "The run log.",
      {key("every_steps", AT(log.every_steps), "steps between logged ones").range(1, 1e12),
       key("samples", AT(log.samples),
           "sequences of the validation data whose tokens' losses and weights are logged one by one at each "
           "validation, of at most one rank's micro-batch; 0: none")
           .range(0, 1e6),
       key("database", AT(log.database), "file of the log, relative to the working directory").not_empty(),
       key("tensorboard", AT(log.tensorboard),
           "a folder where each run leaves a folder of TensorBoard's event files while it trains; relative to the "
           "working directory")}};
  table.in_identity = false;
  return table;
}

SchemaTable sweep_table() {
  SchemaTable table{
      "sweep",
      "Makes one file stand for many runs: every key of it is a key of the experiment with a list of values "
      "(`seed = [1, 2, 3]`, `optimizer.lr = [1e-3, 3e-4]`), and the runs are all their combinations, the first "
      "key slowest. A table in the list `[[sweep.members]]` gives values of several keys that go together. "
      "`run` trains one after another, or with `--jobs K` so many beside each other on shares of the cores "
      "(how many a machine can hold is no part of the experiment); it trains the stages that they need first, "
      "each once, leaves out what the log has finished runs of, and prints one table at the end.",
      {}};
  table.read_elsewhere = true;  // core/config/sweep.hpp
  table.in_identity = false;
  return table;
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
    const bool empty = (integer && *integer == 0) || (number && *number == 0) || (text && text->empty()) ||
                       (texts && texts->empty()) || (numbers && numbers->empty());
    return empty ? std::nullopt : value;
  };
  return *this;
}

const std::vector<SchemaTable>& schema() {
  static const std::vector<SchemaTable> tables{
      head_table(),           pipeline_table(),   inner_table(),       adapter_table(),
      model_table(),          model_rope_table(), reference_table(),   reference_model_table(),
      reference_rope_table(), value_table(),      value_model_table(), value_rope_table(),
      data_table(),           tokenizer_table(),  arithmetic_table(),  difficulty_table(),
      train_table(),          optimizer_table(),  schedule_table(),    parallel_table(),
      checkpoint_table(),     validation_table(), guard_table(),       log_table(),
      sweep_table()};
  return tables;
}

const SchemaTable* find_table(const std::string& name) {
  const auto& tables = schema();
  const auto found = std::find_if(tables.begin(), tables.end(), [&](const SchemaTable& t) { return t.name == name; });
  return found == tables.end() ? nullptr : &*found;
}

const Key* find_key(const SchemaTable& table, const std::string& key) {
  const auto found = std::find_if(table.keys.begin(), table.keys.end(), [&](const Key& k) { return k.name == key; });
  return found == table.keys.end() ? nullptr : &*found;
}

std::string path_of(const std::string& table, const std::string& key) {
  return table.empty() ? key : table + "." + key;
}

}  // namespace wmtp
