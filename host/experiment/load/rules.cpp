#include "experiment/load/rules.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "experiment/batch_size.hpp"
#include "experiment/device_rules.hpp"
#include "experiment/load/stage_rules.hpp"
#include "experiment/model_config.hpp"
#include "experiment/reference_heads.hpp"
#include "experiment/schema.hpp"

namespace wmtp {
namespace {

class Rules : RuleChecker {
 public:
  Rules(const BoundExperiment& bound, Diagnostics& diagnostics) : RuleChecker(bound, diagnostics) {}

  void all(const PluginNeeds* needs) {
    name();
    model("model", e_.model);
    future_heads();
    first_weights();
    for (const auto& [table, frozen] : frozen_tables(e_))
      if (frozen->model) model(table + ".model", *frozen->model);
    lengths();
    steps();
    global_batch();
    epochs_between();
    check_head_rules(bound_, needs, diagnostics_);
    trained_parts();
    schedule();
    shard_groups();
    sections();
    sequence_groups();
    reduction();
    device();
    activation_offload();
    optimizer_offload();
    offload_path();
    determinism();
    prompts(needs);
    keep_best();
    check_data_rules(bound_, diagnostics_);
    check_unused_keys(bound_, needs, diagnostics_);
    for (const auto& [table, frozen] : frozen_tables(e_)) frozen_model(table, needs);
    if (needs) missing_references(*needs);
    for (const auto& [table, frozen] : frozen_tables(e_)) reference_heads(table, *frozen);
    if (needs && needs->pairs) pairs();
    if (needs && needs->prompts) prompt_targets();
    if (needs && std::ranges::count(needs->reads, record_correct) > 0) wrong_answers();
    if (needs && needs->top_k > 0) top_k(*needs);
    if (needs && needs->signed_weights) signed_weights();
    if (needs && bound_.all_valid({"data", "data.kind"})) signals_of_data(*needs);
    if (needs && std::ranges::count(needs->reads, previous_loss) > 0) second_epoch();
    if (needs && e_.data.packing && bound_.all_valid({"data.packing"})) packing(*needs);
  }

 private:
  void name() {
    if (!bound_.all_valid({"name"})) return;
    const bool letters = std::all_of(e_.name.begin(), e_.name.end(), [](unsigned char byte) {
      return std::isalnum(byte) || byte == '.' || byte == '_' || byte == '-';
    });
    if (letters && !e_.name.empty() && e_.name.size() <= 64 && std::isalnum(uint8_t(e_.name[0]))) return;
    refuse("name",
           "name: found " + quote(e_.name) +
               ", wanted at most 64 letters, digits, '.', '_' or '-', the first a letter or digit",
           "it is also the name of the run's folder");
  }

  void model(const std::string& table, const ModelConfig& m) {
    constexpr const char* pairs_hint = "the rotary embedding rotates pairs of components";
    const auto at = [&](const char* key) { return table + "." + key; };
    const auto good = [&](std::initializer_list<const char*> keys) {
      // A frozen model's shape copies values from [model], including erroneous ones.
      return std::all_of(keys.begin(), keys.end(), [&](const char* key) {
        return !bound_.invalid_keys.count(at(key)) && !bound_.invalid_keys.count(key_path("model", key));
      });
    };
    if (m.head_dim > 0) {
      if (good({"head_dim"}) && m.head_dim % 2 != 0)
        refuse(at("head_dim"), "found head_dim " + number(m.head_dim) + ", wanted an even number", pairs_hint);
    } else if (good({"dim", "heads"}) && m.dim % m.heads != 0) {
      refuse(at("heads"), "found " + number(m.heads) + " heads for dim " + number(m.dim) + ", wanted a divisor of dim");
    } else if (good({"dim", "heads"}) && m.dim / m.heads % 2 != 0) {
      refuse(at("heads"), "dim / heads is " + number(m.dim / m.heads) + ", wanted an even number", pairs_hint);
    }
    if (good({"heads", "kv_heads"}) && m.heads % m.kv_heads != 0) {
      refuse(at("kv_heads"),
             "found " + number(m.kv_heads) + " kv_heads for " + number(m.heads) + " heads, wanted a divisor of heads");
    }
    if (m.qk_norm && m.joint_qk_norm && good({"qk_norm", "joint_qk_norm"}))
      refuse(bound_.has(at("joint_qk_norm")) ? at("joint_qk_norm") : at("qk_norm"),
             "[" + table + "] found qk_norm and joint_qk_norm, wanted one of them",
             "a query is normalized in each head, or over all heads");
    if (good({"layers", "future_tokens"}) && m.layers < m.future_tokens) {
      refuse(at("layers"),
             "found " + number(m.layers) + " layers for " + number(m.future_tokens) +
                 " future_tokens, wanted at least one layer for each",
             "layers is the number of blocks of trunk and heads together");
    }
    if (table != "model" && good({"vocab_size"}) && m.vocab_size != e_.model.vocab_size) {
      refuse(at("vocab_size"), "[" + table + "] has " + number(m.vocab_size) + " tokens, [model] " +
                                   number(e_.model.vocab_size) + ", wanted the same vocabulary");
    }
    rope_scaling(at("rope_scaling"), m);
    // For a frozen model without its own length, the error about [model] is sufficient.
    const bool own_length = table == "model" || bound_.has(at("max_sequence_length"));
    if (own_length && good({"max_sequence_length"}) && bound_.all_valid({"train.sequence_length"}) &&
        e_.train.sequence_length > m.max_sequence_length) {
      refuse("train.sequence_length", "found sequence_length " + number(e_.train.sequence_length) +
                                          ", wanted at most [" + table +
                                          "] max_sequence_length = " + number(m.max_sequence_length));
    }
  }

  /// Each type requires its own keys and refuses all others.
  void rope_scaling(const std::string& table, const ModelConfig& m) {
    if (!bound_.has(table) || !bound_.all_valid({table.c_str(), (table + ".rope_type").c_str()})) return;
    using enum RopeType;
    const RopeType type = m.rope_scaling ? m.rope_scaling->rope_type : none;
    const std::string shown_type = quote(to_string(type));
    struct RopeKey {
      std::string name;
      std::set<RopeType> types;
      bool is_required = true;
    };
    static const std::vector<RopeKey> all{
        {"factor", {linear, llama3, yarn}},  {"low_freq_factor", {llama3}},
        {"high_freq_factor", {llama3}},      {"original_max_position_embeddings", {llama3, yarn}},
        {"attention_factor", {yarn}, false}, {"beta_fast", {yarn}, false},
        {"beta_slow", {yarn}, false}};
    std::vector<std::string> missing;
    for (const auto& [name, types, is_required] : all) {
      const std::string key = key_path(table, name);
      if (types.contains(type) && is_required && !bound_.has(key)) missing.push_back(name);
      if (!types.contains(type) && bound_.has(key))
        refuse_key(key, "[" + table + "] " + name + " does not apply to rope_type " + shown_type, "remove it");
    }
    if (!missing.empty())
      refuse(table + ".rope_type", "[" + table + "] rope_type " + shown_type + " lacks " + join_names(missing));
    if (!missing.empty() || type == none) return;
    const RopeScaling& scaling = *m.rope_scaling;
    if (type == llama3)
      larger(table, "high_freq_factor", scaling.high_freq_factor, "low_freq_factor", scaling.low_freq_factor);
    if (type == yarn) larger(table, "beta_fast", scaling.beta_fast, "beta_slow", scaling.beta_slow);
    if (type == yarn && m.rope_theta <= 1)
      refuse(table + ".rope_type",
             "[" + table + "] found rope_theta " + toml_text(m.rope_theta) + ", wanted more than 1 for rope_type yarn");
  }

  void larger(const std::string& table, const char* name, double value, const char* other, double bound) {
    const std::string key = key_path(table, name), other_key = key_path(table, other);
    if (bound_.all_valid({key.c_str(), other_key.c_str()}) && value <= bound)
      refuse(bound_.has(key) ? key : other_key, "[" + table + "] found " + name + " " + toml_text(value) +
                                                    ", wanted more than " + other + " = " + toml_text(bound));
  }

  void future_heads() {
    if (!bound_.all_valid({"model.future_heads", "model.future_tokens"})) return;
    if (has_chained_heads(e_.model) && e_.model.future_tokens == 1)
      refuse_key("model.future_heads", "future_heads has no effect with future_tokens = 1",
                 "remove it, or set future_tokens above 1");
  }

  void first_weights() {
    if (bound_.all_valid({"model", "model.experiment", "model.weights"}) && !e_.model.experiment.empty() &&
        !e_.model.weights.empty()) {
      refuse_key("model.weights", "found both experiment and weights, wanted one of them");
    }
    if (bound_.has("model.new_heads") && bound_.all_valid({"model", "model.weights"}) && e_.model.weights.empty())
      refuse_key("model.new_heads", "new_heads has no effect without weights",
                 "remove it: without weights all heads are initialized at random");
  }

  void lengths() {
    if (bound_.all_valid({"train.sequence_length", "model.future_tokens", "model.future_offsets"}) &&
        e_.train.sequence_length <= last_offset(e_.model)) {
      refuse("train.sequence_length", "found sequence_length " + number(e_.train.sequence_length) + " for " +
                                          farthest_target() + ", wanted longer sequences");
    }
  }

  /// What last_offset() is in the file.
  std::string farthest_target() const {
    const ModelConfig& m = e_.model;
    return m.future_offsets.empty() ? number(m.future_tokens) + " future_tokens"
                                    : "future_offsets up to " + number(last_offset(m));
  }

  void steps() {
    if (!bound_.all_valid({"train", "train.steps", "train.epochs"})) return;
    const bool steps = bound_.has("train.steps"), epochs = bound_.has("train.epochs");
    if (!steps && !epochs) refuse("train.", "[train] lacks steps or epochs, the length of the run");
    if (steps && epochs) refuse_key("train.epochs", "found both steps and epochs, wanted one of them");
    if (epochs && e_.data.kind == DataKind::random)
      refuse_key("train.epochs", "random data is unlimited, so it has no epochs", "set [train] steps instead");
    if (steps && bound_.all_valid({"schedule.warmup_steps", "schedule.stable_steps"})) schedule_within_steps();
    if (steps && bound_.all_valid({"log", "log.profile_step"}) && e_.log.profile_step > e_.train.steps)
      refuse("log.profile_step", "found profile_step " + number(e_.log.profile_step) +
                                     ", wanted at most [train] steps = " + number(e_.train.steps));
  }

  void global_batch() {
    const std::string key = "train.global_batch_size";
    if (!bound_.has(key) || !bound_.all_valid({"train", key.c_str(), "train.batch_size"})) return;
    if (bound_.has("train.gradient_accumulation"))
      refuse_key("train.gradient_accumulation", "found both global_batch_size and gradient_accumulation",
                 "remove it: ranks and micro-batches fill the global batch");
    if (!bound_.all_valid({"parallel.processes", "parallel.sequence", "parallel.tensor", "parallel.pipeline"})) return;
    if (bound_.has("parallel.processes") && sequence_misfit(e_, e_.parallel.processes).empty()) {
      const std::string misfit = global_batch_misfit(e_, e_.parallel.processes);
      if (!misfit.empty()) refuse(key, misfit);  // if not given, a launcher sets the processes
    }
  }

  void epochs_between() {
    if (!bound_.all_valid({"data.kind"}) || e_.data.kind != DataKind::random) return;
    if (e_.checkpoint.every_epochs > 0 && bound_.all_valid({"checkpoint", "checkpoint.every_epochs"}))
      refuse_key("checkpoint.every_epochs", "random data is unlimited, so it has no epochs", "set every_steps instead");
  }

  void prompts(const PluginNeeds* needs) {
    const std::string key = "log.prompts";
    if (!bound_.all_valid({"log", key.c_str()})) return;
    const std::vector<std::string>& prompts = e_.log.prompts;
    if (prompts.empty()) return;
    if (needs && !needs->when) {
      refuse_key(key, "prompts has no effect: " + title() + " trains no head that predicts tokens", "remove it");
    } else if (bound_.all_valid({"data", "data.kind"}) && !has_tokenizer(e_.data) && !e_.data.tokenizer.given) {
      refuse_key(
          key, "prompts requires a tokenizer, which data of kind " + quote(to_string(e_.data.kind)) + " lacks",
          e_.data.kind == DataKind::tokens ? "name the tokenizer that wrote the ids in [data.tokenizer]" : "remove it");
    } else if (std::find(prompts.begin(), prompts.end(), "") != prompts.end()) {
      refuse(key, "found an empty prompt, wanted at least one character");
    }
  }

  void schedule_within_steps() {
    const ScheduleConfig& schedule = e_.schedule;
    const std::string steps = "[train] steps = " + number(e_.train.steps);
    if (schedule.warmup_steps >= e_.train.steps)
      refuse("schedule.warmup_steps",
             "found " + number(schedule.warmup_steps) + " warmup_steps, wanted less than " + steps);
    else if (schedule.warmup_steps + schedule.stable_steps >= e_.train.steps)
      refuse("schedule.stable_steps",
             "found " + number(schedule.warmup_steps) + " warmup_steps and " + number(schedule.stable_steps) +
                 " stable_steps, which leaves no steps for the decay; wanted a sum below " + steps);
  }

  void trained_parts() {
    const ModelConfig& m = e_.model;
    const int64_t last = e_.trained_parts.last_blocks;
    const int64_t shared = m.future_tokens - num_head_blocks(m, m.future_tokens);
    if (bound_.all_valid({"adapter.train_last", "model.layers", "model.future_tokens"}) && m.layers > 0 &&
        last > m.layers - shared)
      refuse("adapter.train_last",
             "found train_last " + number(last) + ", wanted at most [model] layers = " + number(m.layers) +
                 (shared > 0 ? " less " + number(shared) + ", as heads 2, 3, ... share a block" : ""));
  }

  void schedule() {
    if (!bound_.all_valid({"schedule", "schedule.name", "schedule.stable_steps"})) return;
    if (e_.schedule.name == Schedule::wsd && !bound_.has("schedule.stable_steps"))
      refuse("schedule.name", "\"wsd\" lacks stable_steps, the number of steps before the decay");
  }

  void shard_groups() {
    const std::string key = "parallel.shard_group_size";
    if (!bound_.all_valid({"parallel", key.c_str(), "parallel.strategy"})) return;
    const auto frozen_models = frozen_tables(e_);
    if (std::ranges::any_of(frozen_models,
                            [&](const auto& one) { return bound_.invalid_keys.contains(one.first + ".strategy"); }))
      return;
    std::string hybrid = e_.parallel.strategy == Strategy::hybrid_shard ? "parallel" : "";
    for (const auto& [table, frozen] : frozen_models)
      if (frozen->strategy == Strategy::hybrid_shard && hybrid.empty()) hybrid = table;
    if (hybrid.empty()) {
      if (bound_.has(key))
        refuse_key(key, "shard_group_size applies only to the strategy \"hybrid_shard\", which no model here uses",
                   "remove it, or set [parallel] strategy = \"hybrid_shard\"");
      return;
    }
    if (!bound_.has(key)) {
      refuse(
          hybrid + ".strategy",
          "\"hybrid_shard\" lacks [parallel] shard_group_size, the number of ranks that share one copy of the model");
    } else if (bound_.all_valid({"parallel.processes", "parallel.tensor", "parallel.pipeline"})) {
      const ParallelConfig& parallel = e_.parallel;  // if the processes are not given, a launcher sets them
      const int64_t processes =
          bound_.has("parallel.processes") ? parallel.processes : parallel.shard_group_size * parallel.pipeline;
      if (const std::string misfit = shard_group_misfit(e_, processes); !misfit.empty()) refuse(key, misfit);
    }
  }

  void sections() {
    const std::string key = "parallel.pipeline";
    const int64_t sections = e_.parallel.pipeline;
    if (!bound_.all_valid({"parallel", key.c_str()}) || sections == 1) return;
    if (bound_.has("parallel.processes") && bound_.all_valid({"parallel.processes"}))
      if (const std::string misfit = pipeline_misfit(e_, e_.parallel.processes); !misfit.empty()) refuse(key, misfit);
    if (!bound_.all_valid({"model", "model.layers", "model.future_tokens"})) return;
    if (const int64_t blocks = num_trunk_blocks(e_.model); sections > blocks + 1)
      refuse(key, "found pipeline " + number(sections) + " for " + number(blocks) +
                      " trunk blocks (layers - future_tokens), wanted at most " + number(blocks + 1) +
                      ": every section but that of the heads has a block");
  }

  void sequence_groups() {
    const ParallelConfig& parallel = e_.parallel;
    const std::string key = parallel.tensor > 1 ? "parallel.tensor" : "parallel.sequence";
    const int64_t ranks = ranks_per_sequence(parallel);
    if (!bound_.all_valid({"parallel", "parallel.sequence", "parallel.tensor"}) || ranks == 1) return;
    const auto refuse_if = [&](const std::string& misfit) {
      if (!misfit.empty()) refuse(key, misfit);
    };
    const auto found = [&](const std::string& what) {
      return "found " + sequence_ranks_text(parallel) + " for " + what;
    };
    if (bound_.has("parallel.processes") && bound_.all_valid({"parallel.processes"}))
      refuse_if(sequence_misfit(e_, parallel.processes));  // if not given, a launcher sets them
    if (bound_.all_valid({"model", "model.heads", "model.kv_heads", "model.ffn_dim"}))
      refuse_if(block_misfit(e_.model, parallel));
    for (const auto& [table, frozen] : frozen_tables(e_)) {
      const std::string heads = table + ".model.heads", kv_heads = table + ".model.kv_heads",
                        ffn_dim = table + ".model.ffn_dim";
      if (!frozen->model || !bound_.all_valid({heads.c_str(), kv_heads.c_str(), ffn_dim.c_str()})) continue;
      if (const std::string misfit = block_misfit(*frozen->model, parallel); !misfit.empty())
        refuse(key, misfit + " ([" + table + ".model])");
    }
    if (bound_.all_valid({"train.sequence_length"})) {
      const int64_t length = e_.train.sequence_length;
      if (length % ranks != 0)
        refuse(key, found("sequence_length " + number(length)) + ", wanted a divisor");
      else if (bound_.all_valid({"model.future_tokens", "model.future_offsets"}) &&
               length / ranks < last_offset(e_.model))
        refuse(key, found("sequence_length " + number(length)) + ", which leaves " + number(length / ranks) +
                        " positions for each rank, wanted at least " + number(last_offset(e_.model)) + " for " +
                        farthest_target());
    }
    if (bound_.all_valid({"data.kind"}) && e_.data.kind == DataKind::records && positions_multiple % ranks != 0)
      refuse(key, found("records") + ", wanted a divisor of " + number(positions_multiple) +
                      ": the length of a batch of records is a multiple of that");
  }

  void keep_best() {
    if (!bound_.all_valid({"checkpoint", "checkpoint.keep_best", "validation"}) || !e_.checkpoint.keep_best) return;
    if (e_.validation.every_steps == 0 && e_.validation.every_epochs == 0)
      refuse_key("checkpoint.keep_best", "keep_best lacks [validation] every_steps: the best is found by validations",
                 "set [validation] every_steps, or remove keep_best");
  }

  void reduction() {
    if (!bound_.all_valid({"parallel", "parallel.reduce", "parallel.precision"})) return;
    const Precision reduce = e_.parallel.reduce, precision = e_.parallel.precision;
    const std::string found =
        "found reduce " + quote(to_string(reduce)) + " for precision " + quote(to_string(precision)) + ", wanted ";
    if (reduce == Precision::bf16 && precision == Precision::fp32)
      refuse("parallel.reduce", found + "\"fp32\": bf16 would round the gradients to 8 bits",
             "remove it, or set precision = \"bf16\"");
    if (reduce == Precision::fp16 && precision != Precision::fp16)
      refuse("parallel.reduce",
             found + (precision == Precision::bf16 ? "\"fp32\" or \"bf16\"" : "\"fp32\"") +
                 ": without a loss scale, small gradients become 0 in fp16",
             "remove it, or set precision = \"fp16\"");
  }

  void device() {
    if (e_.parallel.device == DeviceChoice::automatic ||
        !bound_.all_valid({"parallel", "parallel.device", "parallel.cpu_offload", "parallel.offload_path",
                           "parallel.activation_offload", "parallel.optimizer_offload"}))
      return;
    for (const auto& [key, found, remedy] : device_misfits(e_.parallel, e_.parallel.device == DeviceChoice::cuda))
      refuse_key("parallel." + key, found, remedy);
  }

  void activation_offload() {
    const std::string key = "parallel.activation_offload";
    if (!bound_.all_valid({"parallel", key.c_str(), "parallel.activation_checkpointing"})) return;
    const ParallelConfig& parallel = e_.parallel;
    if (parallel.activation_offload && parallel.activation_checkpointing == 0)
      refuse(key,
             "found activation_offload = true for activation_checkpointing \"none\", wanted false: only inputs of "
             "recomputed blocks can be offloaded",
             "remove it, or set activation_checkpointing = \"full\"");
  }

  void optimizer_offload() {
    const std::string key = "parallel.optimizer_offload";
    if (!bound_.all_valid({"parallel", key.c_str(), "parallel.precision", "optimizer", "optimizer.name",
                           "optimizer.momentum", "train.ema"}))
      return;
    if (e_.parallel.optimizer_offload == OptimizerOffload::none) return;
    const std::string found = "found optimizer_offload = \"nvme\" ";
    if (!bound_.has("parallel.offload_path"))
      refuse(key, found + "without offload_path, wanted the folder of the file",
             "set offload_path to a folder on a local disk");
    if (traits_of(e_.optimizer.kind).orthogonalizes)
      refuse(key,
             found +
                 "for optimizer \"muon\", wanted \"none\": it orthogonalizes whole matrices of the momentum, of which "
                 "a file gives blocks",
             "remove it, set optimizer.name to \"adamw\" or \"sgd\", or on a CUDA device use cpu_offload = true");
    else if (kept_averages(e_.optimizer, /*orthogonalizes=*/false) == 0 && e_.train.ema == 0 &&
             e_.parallel.precision == Precision::fp32)
      refuse(key,
             found +
                 "for optimizer \"sgd\" with momentum = 0 in fp32 without train.ema, wanted \"none\": it keeps no "
                 "state",
             "remove it");
  }

  void offload_path() {
    const std::string path = "parallel.offload_path";
    if (!bound_.has(path) ||
        !bound_.all_valid({"parallel", path.c_str(), "parallel.activation_offload", "parallel.optimizer_offload"}))
      return;
    const ParallelConfig& parallel = e_.parallel;
    if (parallel.optimizer_offload == OptimizerOffload::none && !parallel.activation_offload)
      refuse_key(path, "offload_path applies only to activation_offload = true and optimizer_offload = \"nvme\"",
                 "remove it");
  }

  void determinism() {
    if (!bound_.all_valid({"parallel", "parallel.deterministic", "parallel.device"})) return;
    if (!e_.parallel.deterministic && e_.parallel.device == DeviceChoice::cpu)
      refuse("parallel.deterministic",
             "found deterministic = false for device \"cpu\", wanted true: the CPU's kernels are always deterministic",
             "remove it, or set device = \"cuda\"");
  }

  /// A frozen model is given if and only if the pipeline reads it.
  void frozen_model(const std::string& table, const PluginNeeds* needs) {
    const std::string experiment = table + ".experiment", weights = table + ".weights", shape = table + ".model";
    const std::string read = needs ? first_read(*needs, table) : "";
    if (!bound_.has(table)) {
      if (!read.empty()) {
        const bool is_auxiliary = read == reference_logits;
        refuse(is_auxiliary ? "auxiliary_loss.plugin" : "pipeline.plugin",
               (is_auxiliary ? "auxiliary loss " + quote(e_.auxiliary_loss->plugin) : title()) + " reads " + read +
                   ", but there is no [" + table + "]",
               "add [" + table + "] with experiment = \"" + (table == "value" ? "critic" : table) +
                   ".toml\" or weights = \"run:NAME\"");
      }
      return;
    }
    if (!bound_.all_valid({table.c_str()})) return;
    const bool by_experiment = bound_.has(experiment), by_weights = bound_.has(weights);
    if (!by_experiment && !by_weights) refuse(table + ".", "[" + table + "] lacks experiment or weights");
    if (by_experiment && by_weights) refuse_key(weights, "found both experiment and weights, wanted one of them");
    if (by_experiment && bound_.has(shape)) {
      refuse_key(shape, "[" + shape + "] applies only to weights; an experiment defines its own shape",
                 "remove the table");
    }
    if (needs && read.empty()) {
      refuse_key(table,
                 title() + " reads no " + (table == "value" ? "value model" : shown_reference(table)) +
                     (e_.pipeline.options.empty() ? "" : " with these options"),
                 "remove [" + table + "]: it would have no effect");
    }
  }

  /// `reference`, or `reference "amateur"`.
  static std::string shown_reference(const std::string& table) {
    return table == "reference" ? table : "reference " + quote(table.substr(reference_table("").size()));
  }

  /// Tables of names that the pipeline reads and the experiment lacks.
  void missing_references(const PluginNeeds& needs) {
    std::set<std::string> missing;
    for (const std::string& read : needs.reads) {
      const std::string table = read.substr(0, read.rfind('.'));
      if (table == "reference" || !is_reference_table(table) || bound_.has(table) || !missing.insert(table).second)
        continue;
      std::string known;
      for (const auto& [name, frozen] : e_.references) known += (known.empty() ? "" : ", ") + name;
      refuse("pipeline.plugin",
             title() + " reads " + read + ", but the experiment has no [" + table + "]" +
                 (known.empty() ? "" : ", only [references] " + known),
             "add [" + table + "] with experiment = \"" + table.substr(reference_table("").size()) +
                 ".toml\" or weights = \"run:NAME\"");
    }
  }

  /// Of a reference whose shape is stated here; that of a stage is compared with it, and that of weights read later.
  void reference_heads(const std::string& table, const FrozenConfig& reference) {
    const std::string heads = table + ".heads", tokens = table + ".model.future_tokens";
    if (!reference.model || !bound_.all_valid({table.c_str(), heads.c_str(), tokens.c_str(), "model.future_tokens"}))
      return;
    const int64_t found = reference.model->future_tokens, wanted = e_.model.future_tokens;
    if (lacks_own_heads(reference.heads, found, wanted))
      refuse(heads,
             "found heads \"own\" for [" + table + ".model] future_tokens = " + number(found) +
                 ", wanted at least [model] future_tokens = " + number(wanted),
             own_heads_hint);
  }

  /// What the pipeline reads of the data, its kind must have.
  void signals_of_data(const PluginNeeds& needs) {
    for (const std::string& read : needs.reads) {
      if (!read.starts_with("data.")) continue;
      const bool is_of_text = read == "data.bytes", has_text = has_tokenizer(e_.data) || e_.data.tokenizer.given;
      if (is_of_text ? has_text : e_.data.kind == DataKind::records) continue;
      refuse("data.kind",
             title() + " reads " + read + ": found data of kind " + quote(to_string(e_.data.kind)) +
                 (is_of_text ? " without a tokenizer" : ", wanted kind \"records\""),
             is_of_text && e_.data.kind == DataKind::tokens
                 ? "name the tokenizer that wrote the ids in [data.tokenizer]"
                 : "");
    }
  }

  /// Of other data no step reads a token again.
  void second_epoch() {
    if (!bound_.all_valid({"data", "data.kind", "train", "train.steps"})) return;
    const std::string reads = title() + " reads " + previous_loss + ", a loss of the epoch before: found ";
    if (e_.data.kind == DataKind::random)
      refuse("data.kind", reads + "data of kind \"random\", which has no epochs", "use another kind");
    else if (e_.data.kind == DataKind::tokens && e_.train.steps > 0)
      refuse("train.steps", reads + "steps, which read every window of token files at most once",
             "set train.epochs instead, to more than 1");
  }

  /// Only records tell a prompt from what is learned.
  void prompt_targets() {
    if (bound_.all_valid({"data", "data.kind"}) && e_.data.kind != DataKind::records)
      refuse("data.kind", title() + " weighs the tokens of prompts: found data of kind " +
                              quote(to_string(e_.data.kind)) + ", which has none, wanted kind \"records\"");
  }

  void wrong_answers() {
    if (bound_.all_valid({"data", "data.select"}) && e_.data.select == AnswerSelection::correct)
      refuse("data.select",
             "found select \"correct\" with auxiliary loss " + quote(e_.auxiliary_loss->plugin) +
                 ", which reads whether answers are right: it leaves out the wrong ones",
             "remove the key");
  }

  void pairs() {
    if (bound_.all_valid({"data", "data.kind"}) && e_.data.kind != DataKind::records) {
      refuse("data.kind", title() + " needs pairs of a correct and an incorrect answer: found data of kind " +
                              quote(to_string(e_.data.kind)) + ", wanted kind \"records\"");
    }
    if (bound_.all_valid({"train", "train.batch_size"}) && e_.train.batch_size % 2 != 0) {
      refuse("train.batch_size", "found batch_size " + number(e_.train.batch_size) +
                                     ", wanted an even number, because " + title() + " needs pairs of answers");
    }
  }

  /// Their sum may be 0, or of the other sign than the loss.
  void signed_weights() {
    if (!bound_.all_valid({"train", "train.normalize"}) || e_.train.normalize != LossDivisor::weights) return;
    refuse("train.normalize",
           "found normalize \"weights\" for the weights of " + title() +
               ", which may be negative: their sum says nothing about their number",
           "remove the key: \"tokens\" divides by the number of tokens");
  }

  void top_k(const PluginNeeds& needs) {
    const int64_t ids = e_.model.vocab_size;
    if (!bound_.all_valid({"model", "model.vocab_size"}) || ids == 0 || needs.top_k <= ids) return;
    refuse("pipeline.plugin",
           title() + " reads the probability of the " + number(needs.top_k) + " likeliest tokens of a vocabulary of " +
               number(ids),
           "choose fewer");
  }

  /// A packed sequence has several answers, but one row of values and one answer to judge.
  void packing(const PluginNeeds& needs) {
    const bool needs_values = !needs.heads.empty() || !first_read(needs, "value").empty();
    const std::string needed = needs.pairs ? "pairs of answers" : needs_values ? "values of whole sequences" : "";
    if (!needed.empty())
      refuse("data.packing", "found packing, which does not work with " + title() + ": it needs " + needed,
             "remove the key");
    if (std::ranges::count(needs.reads, record_correct) > 0)
      refuse("data.packing",
             "found packing, which does not work with auxiliary loss " + quote(e_.auxiliary_loss->plugin) +
                 ": it reads whether the answer of a sequence is right",
             "remove the key");
  }
};

}  // namespace

void check_rules(const BoundExperiment& bound, const std::optional<PluginNeeds>& needs, Diagnostics& diagnostics) {
  Rules(bound, diagnostics).all(needs ? &*needs : nullptr);
}

}  // namespace wmtp
