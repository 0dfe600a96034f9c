#include "experiment/foreign_names.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "experiment/schema.hpp"

namespace wmtp {
namespace {

struct ForeignName {
  std::string_view name, key;
  std::string_view difference = "";
};
constexpr ForeignName foreign_names[] = {
    {"hidden_size", "model.dim"},
    {"n_embd", "model.dim"},
    {"d_model", "model.dim"},
    {"num_hidden_layers", "model.layers", "trunk and heads together: num_hidden_layers + future_tokens - 1"},
    {"n_layer", "model.layers", "trunk and heads together: n_layer + future_tokens - 1"},
    {"num_attention_heads", "model.heads"},
    {"n_head", "model.heads"},
    {"num_key_value_heads", "model.kv_heads"},
    {"intermediate_size", "model.ffn_dim"},
    {"max_position_embeddings", "model.max_sequence_length"},
    {"rms_norm_eps", "model.norm_eps"},
    {"block_size", "train.sequence_length"},
    {"seq_len", "train.sequence_length"},
    {"max_seq_len", "train.sequence_length"},
    {"max_seq_length", "train.sequence_length"},
    {"max_length", "train.sequence_length"},
    {"max_steps", "train.steps"},
    {"max_iters", "train.steps"},
    {"num_train_epochs", "train.epochs"},
    {"micro_batch_size", "train.batch_size", "sequences of a rank in a micro-batch"},
    {"per_device_train_batch_size", "train.batch_size", "sequences of a rank in a micro-batch"},
    {"gradient_accumulation_steps", "train.gradient_accumulation",
     "micro-batches of each rank; nanoGPT's number counts those of all GPUs"},
    {"max_grad_norm", "train.clip_norm"},
    {"grad_clip", "train.clip_norm"},
    {"learning_rate", "optimizer.lr"},
    {"adam_beta1", "optimizer.betas"},
    {"adam_beta2", "optimizer.betas"},
    {"lr_scheduler_type", "schedule.name"},
    {"warmup_iters", "schedule.warmup_steps"},
    {"warmup_ratio", "schedule.warmup_steps", "a number of steps"},
    {"dtype", "parallel.precision"},
    {"torch_dtype", "parallel.precision"},
    {"mixed_precision", "parallel.precision"},
    {"bf16", "parallel.precision", "\"bf16\""},
    {"fp16", "parallel.precision", "\"fp16\""},
    {"gradient_checkpointing", "parallel.activation_checkpointing"},
    {"save_steps", "checkpoint.every_steps"},
    {"save_total_limit", "checkpoint.keep"},
    {"load_best_model_at_end", "checkpoint.keep_best"},
    {"eval_steps", "validation.every_steps"},
    {"eval_interval", "validation.every_steps"},
    {"logging_steps", "log.every_steps"},
    {"report_to", "log.wandb", "true; `trackio = true` and `mlflow = \"URI\"` are the others"},
    {"run_name", "name"},
    {"num_gpus", "parallel.processes"},
    {"gpus", "parallel.processes"},
};

/// Of PEFT, torchtune and axolotl.
constexpr std::pair<std::string_view, std::string_view> lora_options[] = {
    {"r", "rank"},
    {"lora_r", "rank"},
    {"lora_rank", "rank"},
    {"lora_alpha", "alpha"},
    {"lora_dropout", "dropout"},
    {"target_modules", "targets"},
    {"lora_target_modules", "targets"},
    {"lora_attn_modules", "targets"},
    {"modules_to_save", "train"},
    {"use_dora", "dora"},
    {"use_rslora", "rslora"},
};

const ForeignName* find_foreign(std::string_view name) {
  const auto found = std::ranges::find(foreign_names, name, &ForeignName::name);
  return found == std::end(foreign_names) ? nullptr : found;
}

}  // namespace

std::string key_meant_by(std::string name) {
  std::ranges::replace(name, '-', '_');
  if (const ForeignName* foreign = find_foreign(name)) return std::string(foreign->key);
  std::map<ptrdiff_t, std::vector<std::string>> meant;  // by the depth of the table
  for (const SchemaTable& table : schema()) {
    for (const char joint : {'.', '_'})
      if (const std::string prefix = table.name + joint;
          name.starts_with(prefix) && find_key(table, name.substr(prefix.size())))
        return key_path(table.name, name.substr(prefix.size()));
    if (find_key(table, name))
      meant[table.name.empty() ? -1 : std::ranges::count(table.name, '.')].push_back(key_path(table.name, name));
  }
  return meant.empty() || meant.begin()->second.size() > 1 ? "" : meant.begin()->second.front();
}

std::string lora_option_meant_by(std::string_view name) {
  const auto found = std::ranges::find(lora_options, name, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(lora_options) ? "" : std::string(found->second);
}

std::string advice_for_foreign_name(std::string_view name) {
  const ForeignName* const foreign = find_foreign(name);
  if (!foreign) return "";
  const std::string key(foreign->key);
  const size_t dot = key.find('.');
  if (dot == std::string::npos) return "write " + key + " above the first table";
  const std::string difference = foreign->difference.empty() ? "" : " (" + std::string(foreign->difference) + ")";
  return "write " + key.substr(dot + 1) + " in [" + key.substr(0, dot) + "]" + difference;
}

}  // namespace wmtp
