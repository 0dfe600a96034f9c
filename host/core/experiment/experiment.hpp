// Experiment: the one typed value that everything a run does follows from. Parsed once (load.hpp), printed and hashed
// (canonical.hpp); nothing reads TOML or the environment after that. Defaults stand here and nowhere else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace wmtp {

using OptionValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;
using OptionValues = std::map<std::string, OptionValue>;  ///< every option of the plugin's schema, defaults filled in

struct PluginChoice {
  std::string plugin;
  OptionValues options;
  std::set<std::string> given = {};  ///< names of those that the experiment gives
  bool operator==(const PluginChoice&) const = default;
};

/// How the angles of rotary positions are stretched, for texts longer than those a model was first trained on. Keys and
/// formulas are those of transformers (modeling_rope_utils.py).
struct RopeScaling {
  std::string rope_type;        ///< "linear" or "llama3"; until resolved also "default", which is no scaling
  double factor = 0;            ///< positions count 1 / factor
  double low_freq_factor = 0;   ///< llama3: angles that turn fewer times in the original length are stretched whole
  double high_freq_factor = 0;  ///< llama3: those that turn more often are not; between the two in parts
  int64_t original_max_position_embeddings = 0;  ///< llama3: the original length
  bool operator==(const RopeScaling&) const = default;
};

struct ModelConfig {
  int64_t dim = 0;
  int64_t layers = 0;  ///< trunk and heads together
  int64_t heads = 0;
  int64_t kv_heads = 0;    ///< resolved: = heads when not given
  int64_t ffn_dim = 0;     ///< resolved: Llama's rule when not given
  int64_t vocab_size = 0;  ///< resolved: the tokenizer's when one is named
  int64_t future_tokens = 4;
  int64_t max_sequence_length = 0;  ///< resolved: = train.sequence_length when not given
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling;
  double norm_eps = 1e-5;
  bool qkv_bias = false;             ///< queries, keys and values have biases, as Qwen2's do
  bool tie_word_embeddings = false;  ///< the output layer is the embedding's matrix: one parameter with two uses
  std::string weights;               ///< "", a safetensors file or directory, or "run:NAME"
  std::string new_heads;   ///< the policy's, of heads 2, 3, ... that the weights lack: "copy", "new", "" refuses
  std::string experiment;  ///< the policy's: path of the stage that trains its first weights, as written
  bool operator==(const ModelConfig&) const = default;
};

enum class Strategy { no_shard, shard_grad_op, full_shard, hybrid_shard };
enum class Precision { fp32, bf16, fp16 };
enum class Norm { l2, l1, inf };

/// A frozen model beside the policy: [reference], [value].
struct FrozenConfig {
  bool given = false;
  std::string experiment;  ///< path of the stage that trains it, as written
  std::string weights;
  std::optional<ModelConfig> model;  ///< [reference.model]; else the stage's shape, or the policy's
  std::optional<Strategy> strategy;
  std::optional<Precision> precision;
  bool cache = true;  ///< whether what it says of a window is kept for other epochs and runs
  bool operator==(const FrozenConfig&) const = default;
};

struct TokenizerConfig {
  bool given = false;
  std::string kind = "byte";  ///< "byte" (256 bytes + begin, end), "bpe" (SentencePiece, trained when prepared), "file"
  std::vector<std::string> files;  ///< bpe: the patterns of the text it is trained on; empty: data.files
  std::string file;                ///< file: a tokenizer.json, or a SentencePiece model
  int64_t vocab_size = 0;          ///< bpe: required; byte: 258; file: 0
  bool operator==(const TokenizerConfig&) const = default;
};

/// Problems of our own making (core/arithmetic/arithmetic.hpp): [data.arithmetic].
struct ArithmeticConfig {
  bool given = false;
  int64_t problems = 20000;
  int64_t seed = 0;
  std::vector<std::string> operations{"negate", "add", "multiply", "compose"};
  int64_t min_operations = 1, max_operations = 5;  ///< of a problem
  int64_t answers_right = 1;                       ///< 0 or 1 for each problem
  int64_t answers_wrong = 1;
  bool steps = true;  ///< whether answers show the result of each operation
  bool operator==(const ArithmeticConfig&) const = default;
};

/// Which records are drawn how often, by metadata.difficulty. Given or not: without it every record is drawn alike.
struct DifficultyConfig {
  bool given = false;
  std::vector<std::string> bins;    ///< closed ranges, "6-10"; records in none of them are left out
  std::vector<double> weights;      ///< the bins' shares at the start of the run; any positive sum
  std::vector<double> end_weights;  ///< at its end, linear between; resolved: = weights when not given
  bool operator==(const DifficultyConfig&) const = default;
};

struct DataConfig {
  std::string kind;                ///< "text", "records", "tokens", "random"
  std::vector<std::string> files;  ///< text, records: patterns; `*` within a name, `**` over folders
  std::vector<std::string>
      exclude;  ///< text, records: patterns left out; a stage also gets its parent's validation files
  TokenizerConfig tokenizer;
  ArithmeticConfig arithmetic;             ///< records: made, where no files are named
  std::string select = "all";              ///< records: "all" or "correct"
  std::string prompt_template = "alpaca";  ///< records: "alpaca" or "plain"
  int64_t max_pairs_per_problem = 50;      ///< records: 0 is no cap
  std::vector<double> length_bins{100, 150,  200, 300,
                                  500, 1000, 2000};  ///< records: upper bounds, tokens of the answer
  std::vector<std::string> hold_out;  ///< records: files whose problems are not trained on; a stage gets its parent's
  bool hold_out_problems = false;     ///< records: one problem in twenty is not trained on; a stage gets its parent's
  std::string separator;              ///< text: between the documents of a file; "": a file is one document
  double hold_out_share = 0;          ///< text: last share of a file that is not trained on; a stage gets its parent's
  DifficultyConfig difficulty;
  std::string file;                ///< tokens: raw little-endian ids
  std::string dtype = "uint16";    ///< tokens: "uint16" or "uint32"
  std::string order = "shuffled";  ///< "shuffled" or "sequential"
  bool operator==(const DataConfig&) const = default;
};

struct TrainConfig {
  int64_t steps = 0;  ///< 0: `epochs` says how long
  double epochs = 0;
  int64_t batch_size = 0;  ///< sequences per rank and micro-batch
  int64_t sequence_length = 0;
  int64_t gradient_accumulation = 1;
  double clip_norm = 1.0;            ///< 0: off
  Norm norm = Norm::l2;              ///< of the gradient, for clipping, the guard and the log
  std::string normalize = "tokens";  ///< "tokens" or "weights"
  bool operator==(const TrainConfig&) const = default;
};

struct OptimizerConfig {
  std::string name = "adamw";
  double lr = 3e-4;
  double value_head_lr = 0;  ///< of value heads; resolved: = lr when not given
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_norms = false;
  bool operator==(const OptimizerConfig&) const = default;
};

struct ScheduleConfig {
  std::string name = "constant";  ///< "constant", "cosine" or "wsd"
  int64_t warmup_steps = 0;
  int64_t stable_steps = 0;  ///< wsd: steps at the full rate, between the warm-up and the decay
  double min_lr_ratio = 0.1;
  bool operator==(const ScheduleConfig&) const = default;
};

struct ParallelConfig {
  int64_t processes = 1;
  Strategy strategy = Strategy::full_shard;
  int64_t shard_group_size = 0;  ///< hybrid_shard: neighbouring ranks that hold one model between them
  Precision precision = Precision::fp32;
  Precision reduce = Precision::fp32;   ///< in which gradients travel between ranks: fp32 or bf16
  bool replicate_frozen = false;        ///< every rank holds what is frozen whole
  double activation_checkpointing = 0;  ///< share of the blocks: "none" is 0, "full" 1
  bool cpu_offload = false;             ///< master shards and optimizer state in the host's memory; CUDA alone
  std::string device = "auto";          ///< "auto", "cpu", "cuda"
  bool oversubscribe = false;           ///< more than 8 local ranks on each usable core
  double timeout_seconds = 120;         ///< longest wait for another rank, at the rendezvous too
  bool operator==(const ParallelConfig&) const = default;
};

struct CheckpointConfig {
  int64_t every_steps = 0;   ///< 0: none by steps
  double every_minutes = 0;  ///< since the last save, by rank 0's clock; 0: none by time
  int64_t keep = 2;
  bool operator==(const CheckpointConfig&) const = default;
};

struct ValidationConfig {
  int64_t every_steps = 0;         ///< 0: only at step 0 and at the end, where there is validation data
  int64_t batches = 8;             ///< micro-batches over all ranks together
  std::vector<std::string> files;  ///< text, records: held out of every training set, its stages' too
  double share = 0;                ///< text: last share of each file's documents that is held out; 0: not given
  bool given = false;
  bool operator==(const ValidationConfig&) const = default;
};

struct GuardConfig {
  double loss_spike = 0;   ///< standard deviations over the mean of the last `window` losses; 0: off
  double spike_floor = 1;  ///< a loss that is nearer to the mean is no spike
  int64_t window = 100;
  double grad_norm = 0;  ///< limit before clipping; 0: off
  int64_t max_in_a_row = 10;
  bool operator==(const GuardConfig&) const = default;
};

struct LogConfig {
  int64_t every_steps = 1;
  int64_t samples = 1;                    ///< sequences looked at token by token, at each validation
  std::string database = "runs/wmtp.db";  ///< relative to the working directory
  std::string tensorboard;                ///< folder for event files, likewise; "" for none
  bool operator==(const LogConfig&) const = default;
};

struct Experiment {
  std::string name;
  int64_t seed = 0;
  PluginChoice pipeline;
  std::optional<PluginChoice> inner;  ///< [pipeline.inner]: what a wrapper is laid over
  PluginChoice adapter{"full", {}, {}};
  std::string adapter_weights;  ///< [adapter] weights: first values of the adapter's own parameters
  ModelConfig model;
  FrozenConfig reference;
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

  std::filesystem::path file;  ///< where it was read; paths in it are relative to this file's folder
  std::string source;          ///< the text as it stood in the file
  /// The parsed experiments that are run first, by the table that names them: "model", "reference", "value".
  std::map<std::string, std::shared_ptr<const Experiment>> stages;

  /// A stage by its table's name, or null.
  const Experiment* stage(const std::string& table) const {
    const auto found = stages.find(table);
    return found == stages.end() ? nullptr : found->second.get();
  }
  /// A path of this experiment, resolved against its file's folder.
  std::filesystem::path resolve(const std::string& path) const;
};

/// Whether ids come from a tokenizer, named or not.
inline bool has_tokenizer(const DataConfig& data) { return data.kind == "text" || data.kind == "records"; }
/// Last share of each text file's documents that is not trained on.
inline double held_out_share(const Experiment& e) { return std::max(e.validation.share, e.data.hold_out_share); }
/// Trunk blocks, without the heads.
inline int64_t num_trunk_blocks(const ModelConfig& m) { return m.layers - m.future_tokens; }
inline int64_t head_dim(const ModelConfig& m) { return m.dim / m.heads; }
/// Parameters of the whole model.
int64_t num_parameters(const ModelConfig& model);

/// Why this many ranks cannot be cut into the groups of hybrid_shard; "" when they can, or nothing is to be cut.
std::string misfit_of_groups(const Experiment& experiment, int64_t processes);
/// Error(usage) where they cannot: of ranks whose number is not the file's own.
void check_groups(const Experiment& experiment, int64_t processes);

const char* to_string(Strategy);
const char* to_string(Precision);
const char* to_string(Norm);

}  // namespace wmtp
