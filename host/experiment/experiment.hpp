// Experiment: the typed value that defines a run. Parsed once (experiment/load/load.hpp), printed and hashed
// (canonical.hpp); nothing reads the TOML file after that. All defaults are in its members.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/enum_names.hpp"
#include "experiment/model_config.hpp"
#include "experiment/optimizer_kind.hpp"
#include "experiment/toml/value_rule.hpp"

namespace wmtp {

using OptionValue = Value;                                ///< plugins declare no lists of numbers
using OptionValues = std::map<std::string, OptionValue>;  ///< by name

struct PluginChoice {
  std::string plugin;
  OptionValues options;              ///< all options of the plugin's schema, including defaults
  std::set<std::string> given = {};  ///< names of the options set in the experiment
  bool operator==(const PluginChoice&) const = default;
};

/// The options to create a plugin with: only those set in the experiment, because plugins distinguish an explicit value
/// from a default.
OptionValues given_options(const PluginChoice& choice);

enum class Strategy { full_shard, shard_grad_op, shard_optimizer, no_shard, hybrid_shard };
template <>
inline constexpr auto names_of<Strategy> =
    std::array{"full_shard", "shard_grad_op", "shard_optimizer", "no_shard", "hybrid_shard"};

enum class Precision { fp32, bf16, fp16 };
template <>
inline constexpr auto names_of<Precision> = std::array{"fp32", "bf16", "fp16"};

enum class Norm { l2, l1, inf };
template <>
inline constexpr auto names_of<Norm> = std::array{"l2", "l1", "inf"};

/// What is kept in host memory: nothing; master shards of trained parameters and the optimizer state; also frozen
/// shards.
enum class CpuOffload { none, trained, all };

/// Where the optimizer's state is, except for the parameters: with the master shards, or in a file on a disk.
enum class OptimizerOffload { none, nvme };
template <>
inline constexpr auto names_of<OptimizerOffload> = std::array{"none", "nvme"};

/// Which losses of a reference belong to head k of the policy: those of its own head k, or those of its next-token head
/// for the same target, which has read k - 1 tokens more.
enum class ReferenceHeads { automatic, own, next };
template <>
inline constexpr auto names_of<ReferenceHeads> = std::array{"auto", "own", "next"};

/// A frozen model: [reference], [references.NAME], [value].
struct FrozenConfig {
  bool given = false;
  std::string experiment;  ///< path (as written) of the stage that trains it
  std::string weights;
  std::optional<ModelConfig> model;  ///< [reference.model]; not given: same shape as the stage or the policy
  std::optional<Strategy> strategy;
  std::optional<Precision> precision;
  bool cache = true;                                 ///< whether to store its outputs for later epochs and runs
  ReferenceHeads heads = ReferenceHeads::automatic;  ///< not [value]; auto: own where it has all that are read
  bool operator==(const FrozenConfig&) const = default;
};

inline constexpr int64_t byte_vocab_size = 258;  ///< 256 bytes, begin of text, end of text

/// byte: 256 bytes, begin and end of text; bpe: SentencePiece, trained when the data is prepared.
enum class TokenizerKind { byte, bpe, file };
template <>
inline constexpr auto names_of<TokenizerKind> = std::array{"byte", "bpe", "file"};

struct TokenizerConfig {
  bool given = false;
  TokenizerKind kind = TokenizerKind::byte;
  std::vector<std::string> files;  ///< bpe: patterns of the training text; empty: data.files
  std::string file;                ///< file: a tokenizer.json or a SentencePiece model
  int64_t vocab_size = 0;          ///< bpe: required; byte: 258; file: 0
  bool operator==(const TokenizerConfig&) const = default;
};

/// [data.arithmetic]: generated records (data/arithmetic/arithmetic.hpp).
struct ArithmeticConfig {
  bool given = false;
  int64_t problems = 20000;
  int64_t seed = 0;
  std::vector<std::string> operations{"negate", "add", "multiply", "compose"};
  int64_t min_operations = 1, max_operations = 5;  ///< per problem
  int64_t answers_right = 1;                       ///< per problem, 0 or 1
  int64_t answers_wrong = 1;
  bool steps = true;  ///< answers show the result of each operation
  bool operator==(const ArithmeticConfig&) const = default;
};

/// Shares of records by metadata.difficulty; not given: every record is equally likely.
struct DifficultyConfig {
  bool given = false;
  std::vector<std::string> bins;    ///< closed ranges, "6-10"; records outside all of them are skipped
  std::vector<double> weights;      ///< shares of the bins at the start of the run; any positive sum
  std::vector<double> end_weights;  ///< at the end, linear in between; resolved: = weights when not given
  bool operator==(const DifficultyConfig&) const = default;
};

enum class DataKind { text, records, tokens, random };
template <>
inline constexpr auto names_of<DataKind> = std::array{"text", "records", "tokens", "random"};

enum class AnswerSelection { all, correct };
template <>
inline constexpr auto names_of<AnswerSelection> = std::array{"all", "correct"};

enum class TooLong { exclude, truncate };
template <>
inline constexpr auto names_of<TooLong> = std::array{"exclude", "truncate"};

enum class TextEncoding { utf8, bytes };
template <>
inline constexpr auto names_of<TextEncoding> = std::array{"utf-8", "bytes"};

enum class DataOrder { shuffled, sequential };
template <>
inline constexpr auto names_of<DataOrder> = std::array{"shuffled", "sequential"};

struct DataConfig {
  DataKind kind = DataKind::text;
  std::vector<std::string> files;    ///< not random: patterns; `*` within a name, `**` over folders
  std::vector<std::string> exclude;  ///< patterns; stages of text and tokens add their parent's validation files
  TokenizerConfig tokenizer;
  ArithmeticConfig arithmetic;                    ///< records: generated instead of read from files
  AnswerSelection select = AnswerSelection::all;  ///< records
  std::string format;                             ///< records: of data/records/record_format.hpp; "": recognised
  std::string prompt_template;          ///< records: "alpaca", "plain", "none", "chat", "chatml"; "": by format
  TooLong too_long = TooLong::exclude;  ///< what happens to records longer than a sequence
  int64_t max_pairs_per_problem = 50;   ///< records: 0: unlimited
  /// records: upper bounds of an answer's length in tokens
  std::vector<double> length_bins{100, 150, 200, 300, 500, 1000, 2000};
  // Excluded from training; stages inherit all three from their parent.
  std::vector<std::string> hold_out;           ///< records: problems of these files
  bool hold_out_problems = false;              ///< records: 1 problem in 20
  double hold_out_share = 0;                   ///< text, tokens: last share of each file's documents or ids
  TextEncoding encoding = TextEncoding::utf8;  ///< text; bytes: each file is its bytes, whatever they are
  std::string separator;                       ///< text: separates the documents of a file; "": a file is one document
  bool packing = false;  ///< text, records: no token sees or predicts one of another document of its sequence
  DifficultyConfig difficulty;
  std::string file;   ///< tokens, instead of files: little-endian ids, raw or with a header
  std::string dtype;  ///< tokens: of raw ids, "uint16" or "uint32"; "": of the header, or "uint16"
  DataOrder order = DataOrder::shuffled;
  bool operator==(const DataConfig&) const = default;
};

/// The heads' weights from a step on.
struct HeadWeightsPoint {
  int64_t step = 0;
  std::vector<double> weights;
  bool operator==(const HeadWeightsPoint&) const = default;
};

/// The divisor of a head's weighted loss: its tokens, or the sum of their weights.
enum class LossDivisor { tokens, weights };
template <>
inline constexpr auto names_of<LossDivisor> = std::array{"tokens", "weights"};

struct TrainConfig {
  int64_t steps = 0;  ///< 0: `epochs` is given
  double epochs = 0;
  int64_t batch_size = 0;  ///< sequences per micro-batch and rank
  int64_t sequence_length = 0;
  int64_t gradient_accumulation = 1;
  int64_t global_batch_size = 0;  ///< sequences of an optimizer step; 0: given by the two above and the ranks
  double clip_norm = 1.0;         ///< 0: off
  Norm norm = Norm::l2;           ///< norm of the gradient for clipping, the guard and the log
  LossDivisor normalize = LossDivisor::tokens;
  std::vector<double> head_weights;  ///< factors on the heads' losses; empty: all 1
  /// Later ones, in order of steps, linear in between; two at one step are a jump.
  std::vector<HeadWeightsPoint> head_weights_later;
  bool detach_heads = false;  ///< trunk and embedding learn from head 1 only
  double ema = 0;             ///< decay rate of the moving average of the trained parameters; 0: none
  bool operator==(const TrainConfig&) const = default;
};

/// Settings of the parameters whose name matches.
struct OptimizerGroup {
  std::string match;                   ///< shell pattern of Meta's names: "layers.*norm.weight"
  double lr_scale = 1;                 ///< factor on the learning rate
  std::optional<double> weight_decay;  ///< not given: the optimizer's
  bool operator==(const OptimizerGroup&) const = default;
};

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::adamw;  ///< key: name
  double lr = 3e-4;
  double value_head_lr = 0;  ///< learning rate of value heads; resolved: = lr when not given
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0;  ///< resolved: the kind's when not given
  double weight_decay = 0.1;
  bool decay_norms = false;
  std::vector<OptimizerGroup> groups;  ///< the first that matches applies
  bool operator==(const OptimizerConfig&) const = default;
};
/// The averages that the optimizer keeps of a parameter, which checkpoints contain.
inline int kept_averages(const OptimizerConfig& config, bool orthogonalizes) {
  const OptimizerTraits& traits = traits_of(config.kind);
  const bool is_plain = !traits.has_betas && config.momentum == 0;
  return is_plain ? 0 : orthogonalizes ? 1 : traits.averages;
}

/// wsd: warmup-stable-decay.
enum class Schedule { constant, linear, cosine, wsd };
template <>
inline constexpr auto names_of<Schedule> = std::array{"constant", "linear", "cosine", "wsd"};

enum class DecayShape { linear, cosine };
template <>
inline constexpr auto names_of<DecayShape> = std::array{"linear", "cosine"};

struct ScheduleConfig {
  Schedule name = Schedule::constant;
  int64_t warmup_steps = 0;
  int64_t stable_steps = 0;               ///< wsd: steps at the peak rate between warm-up and decay
  DecayShape decay = DecayShape::linear;  ///< wsd
  int64_t cycles = 1;                     ///< cosine: decays, each from the peak rate
  double min_lr_ratio = 0.1;
  bool operator==(const ScheduleConfig&) const = default;
};

enum class DeviceChoice { automatic, cpu, cuda };
template <>
inline constexpr auto names_of<DeviceChoice> = std::array{"auto", "cpu", "cuda"};

/// As shard_group_size: the ranks of a host, until the hosts are known. Divides every number of ranks.
inline constexpr int64_t host_shard_groups = -1;

struct ParallelConfig {
  int64_t processes = 1;
  int64_t sequence = 1;  ///< ranks that divide the positions of each sequence among them
  int64_t tensor = 1;    ///< consecutive ranks that divide the features of each block among them, and the positions
  int64_t pipeline = 1;  ///< sections of consecutive blocks, each on as many ranks
  Strategy strategy = Strategy::full_shard;
  int64_t shard_group_size = 0;  ///< hybrid_shard: consecutive ranks that share one copy of the model
  Precision precision = Precision::fp32;
  Precision reduce = Precision::fp32;   ///< number format of the gradient reduction: fp32 or bf16
  bool replicate_frozen = false;        ///< every rank holds all frozen parameters
  double activation_checkpointing = 0;  ///< share of the trained trunk blocks: "none" is 0, "full" is 1
  bool activation_offload = false;      ///< inputs of recomputed blocks are kept in host memory, on the CPU in a file
  std::string offload_path;             ///< folder of that file and of optimizer_offload; "": TMPDIR or /tmp
  CpuOffload cpu_offload = CpuOffload::none;  ///< CUDA only
  OptimizerOffload optimizer_offload = OptimizerOffload::none;
  DeviceChoice device = DeviceChoice::automatic;
  bool deterministic = true;     ///< kernels without atomic sums: bitwise reproducible runs
  double peak_tflops = 0;        ///< of a rank's device; 0: the vendor's figure, if known
  bool oversubscribe = false;    ///< allow more than 8 local ranks for each usable core
  double timeout_seconds = 120;  ///< maximum wait for another rank, also at the rendezvous
  bool operator==(const ParallelConfig&) const = default;
};

struct CheckpointConfig {
  int64_t every_steps = 0;   ///< 0: no checkpoints by steps
  double every_epochs = 0;   ///< passes over the training data; 0: no checkpoints by epochs
  double every_minutes = 0;  ///< since the last save, by rank 0's clock; 0: no time-based checkpoints
  int64_t keep = 2;
  bool keep_best = false;  ///< also the checkpoint of the lowest validation loss of head 1
  bool operator==(const CheckpointConfig&) const = default;
};

struct ValidationConfig {
  int64_t every_steps = 0;         ///< 0: only at step 0 and at the end
  double every_epochs = 0;         ///< passes over the training data; 0: not by epochs
  int64_t batches = 8;             ///< micro-batches, in total over all ranks
  std::vector<std::string> files;  ///< excluded from training, also in stages
  double share = 0;                ///< text, tokens: last share of each file's documents or ids; 0: not given
  bool given = false;
  bool operator==(const ValidationConfig&) const = default;
};

struct GuardConfig {
  double loss_spike = 0;   ///< standard deviations above the mean of the last `window` losses; 0: off
  double spike_floor = 1;  ///< minimum distance of a spike from the mean
  double loss_ratio = 0;   ///< multiple of the mean of the last `window` losses; 0: off
  int64_t window = 100;
  double grad_norm = 0;  ///< limit before clipping; 0: off
  int64_t max_in_a_row = 10;
  bool operator==(const GuardConfig&) const = default;
};

struct LogConfig {
  int64_t every_steps = 1;
  int64_t samples = 1;                    ///< sequences logged token by token at each validation
  std::vector<std::string> prompts;       ///< continued by the model at each validation
  int64_t prompt_tokens = 64;             ///< at most, for each prompt
  std::string database = "runs/wmtp.db";  ///< relative to the working directory
  std::string tensorboard;                ///< folder of event files, relative to the working directory; "": none
  bool wandb = false, trackio = false;    ///< whether metrics also go to these trackers while the run trains
  std::string mlflow;                     ///< URI of the MLflow server that also receives them; "": none
  int64_t profile_step = 0;               ///< the step whose profile is written to the run's folder; 0: none
  int64_t head_gradients_every = 0;       ///< steps between comparisons of the heads' gradients; 0: none
  bool operator==(const LogConfig&) const = default;
};

// The adapters that this program names. Of every other plugin it knows only the description.
inline constexpr const char* full_adapter = "full";      ///< of an experiment that names none
inline constexpr const char* frozen_adapter = "frozen";  ///< for passes over a finished model
inline constexpr const char* lora_adapter = "lora";      ///< what PEFT's adapters are here

/// [adapter] train_last, train: which parameters of the model train, in place of the adapter's choice; if none is
/// given, the adapter decides.
struct TrainedParts {
  int64_t last_blocks = 0;         ///< of trunk and heads together, in the order of the forward pass
  std::vector<std::string> names;  ///< shell patterns of Meta's names
  bool given() const { return last_blocks > 0 || !names.empty(); }
  bool operator==(const TrainedParts&) const = default;
};

struct Experiment {
  std::string name;
  int64_t seed = 0;
  PluginChoice pipeline;
  std::optional<PluginChoice> inner;  ///< [pipeline.inner]: the plugin that a wrapper modifies
  PluginChoice adapter{full_adapter, {}, {}};
  std::optional<PluginChoice> auxiliary_loss;  ///< added to the weighted token loss
  TrainedParts trained_parts;
  std::string adapter_weights;  ///< [adapter] weights: initial values of the adapter's parameters
  ModelConfig model;
  FrozenConfig reference;
  std::map<std::string, FrozenConfig> references;  ///< more of them: [references.NAME] by NAME
  FrozenConfig value;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  ParallelConfig parallel;
  CheckpointConfig checkpoint;
  ValidationConfig validation;
  GuardConfig guard;
  LogConfig log;

  std::filesystem::path file;  ///< absolute; paths in the experiment are relative to its folder
  std::string source;          ///< the text of the file
  /// What stated a key's value: "base.toml:12", "command line" or "weights"; by path, "train.steps". Else: a default.
  std::map<std::string, std::string> origins;
  /// The experiments to run first, by the naming table: "model", "reference", "references.NAME", "value".
  std::map<std::string, std::shared_ptr<const Experiment>> stages;

  /// The stage named by a table, or null.
  const Experiment* stage(const std::string& table) const {
    const auto found = stages.find(table);
    return found == stages.end() ? nullptr : found->second.get();
  }
  /// Resolves a path of this experiment against its file's folder.
  std::filesystem::path resolve(const std::string& path) const;
};

/// Whether a tokenizer, explicit or default, makes the token ids here. Files of ids may have one that shows them as
/// text.
inline bool has_tokenizer(const DataConfig& data) {
  return data.kind == DataKind::text || data.kind == DataKind::records;
}
/// The length of a batch of records is a multiple of this, unless train.sequence_length cuts it.
inline constexpr int64_t positions_multiple = 16;
/// Last share of each file's documents or ids that is excluded from training.
inline double held_out_share(const Experiment& e) { return std::max(e.validation.share, e.data.hold_out_share); }
/// Trunk blocks, without the heads.
inline int64_t num_trunk_blocks(const ModelConfig& m) { return m.layers - m.future_tokens; }
/// Whether each of heads 2, 3, ... reads the head before it, with a block of its own or with one that they share.
inline bool has_chained_heads(const ModelConfig& m) { return m.future_heads != FutureHeads::parallel; }
inline bool has_shared_heads(const ModelConfig& m) { return m.future_heads == FutureHeads::shared; }
/// Blocks of `heads` token heads that a model has: if heads 2, 3, ... share one, two at most.
inline int64_t num_head_blocks(const ModelConfig& m, int64_t heads) {
  return has_shared_heads(m) && heads > 2 ? 2 : heads;
}
/// The offsets of the first `heads` heads, as a list in TOML: "[1, 3, 5]".
std::string offsets_text(const std::vector<int64_t>& offsets, int64_t heads);
inline int64_t head_dim(const ModelConfig& m) { return m.head_dim > 0 ? m.head_dim : m.dim / m.heads; }

/// Whether NAME may be that of [references.NAME]: at most 32 lower case letters, digits and '_', the first a letter,
/// and none that a formula knows in another meaning.
bool is_reference_name(const std::string& name);
/// "references.NAME", the table and the prefix of its signals.
inline std::string reference_table(const std::string& name) { return "references." + name; }
/// Whether the model of this table of a frozen model predicts tokens.
inline bool is_reference_table(const std::string& table) {
  return table == "reference" || table.starts_with("references.");
}
/// The tables of frozen models by name: [reference] and [value], given or not, and each [references.NAME].
std::vector<std::pair<std::string, const FrozenConfig*>> frozen_tables(const Experiment& e);
/// One of them.
const FrozenConfig& frozen_config(const Experiment& e, const std::string& table);

/// The number of ranks on each of `hosts`. Error(usage) if they cannot have equally many.
int64_t ranks_per_host(const Experiment& experiment, int64_t hosts);
/// The experiment with known shard groups if its groups are those of a host: of the `ranks` on a host, or those of a
/// section if these are fewer.
Experiment with_host_shard_groups(Experiment experiment, int64_t ranks, int64_t processes);

/// The number of ranks that read the same sequences and divide their positions.
inline int64_t ranks_per_sequence(const ParallelConfig& parallel) { return parallel.sequence * parallel.tensor; }
/// The share of a step in which the rank of a section waits for the first and the last micro-batches.
inline double pipeline_bubble(int64_t sections, int64_t micro_batches) {
  return double(sections - 1) / double(micro_batches + sections - 1);
}
/// The number of groups of ranks that read different sequences.
inline int64_t data_ranks(const ParallelConfig& parallel, int64_t ranks) {
  return ranks / (parallel.pipeline * ranks_per_sequence(parallel));
}

/// Why those of a section of `processes` ranks do not form whole groups of shard_group_size; "" when they do or no size
/// is given.
std::string shard_group_misfit(const Experiment& experiment, int64_t processes);
/// Why they do not form equal sections; "" when they do.
std::string pipeline_misfit(const Experiment& experiment, int64_t processes);
/// Why those of a section do not form whole groups of ranks_per_sequence; "" when they do.
std::string sequence_misfit(const Experiment& experiment, int64_t processes);
/// Why these ranks cannot divide the blocks of a model of this shape: its attention heads, its features; "" when they
/// can.
std::string block_misfit(const ModelConfig& shape, const ParallelConfig& parallel);
/// "sequence 2 x tensor 4"
std::string sequence_ranks_text(const ParallelConfig& parallel);
/// Error(usage) with the first reason why the number of ranks given by a launcher does not fit: pipeline_misfit,
/// shard_group_misfit, sequence_misfit, or global_batch_misfit (batch_size.hpp).
void check_groups(const Experiment& experiment, int64_t processes);

}  // namespace wmtp
