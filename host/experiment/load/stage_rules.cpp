#include "experiment/load/stage_rules.hpp"

#include <algorithm>

#include "experiment/load/rules.hpp"
#include "experiment/model_config.hpp"
#include "experiment/reference_heads.hpp"
#include "experiment/schema.hpp"

namespace wmtp {
namespace {

bool learns_scores(const PluginNeeds& needs) {
  return std::any_of(needs.heads.begin(), needs.heads.end(),
                     [](const ValueHeadNeed& head) { return head.meaning == "score"; });
}

/// The policy starts with the stage's tensors. The vocabulary is checked with the tokenizer.
void check_same_shape(const TomlPosition& position, const ModelConfig& policy, const ModelConfig& stage,
                      Diagnostics& diagnostics) {
  const std::pair<const char*, int64_t ModelConfig::*> members[] = {
      {"dim", &ModelConfig::dim},         {"layers", &ModelConfig::layers},
      {"heads", &ModelConfig::heads},     {"kv_heads", &ModelConfig::kv_heads},
      {"ffn_dim", &ModelConfig::ffn_dim}, {"future_tokens", &ModelConfig::future_tokens}};
  std::string found, wanted;
  const auto compare = [&](const std::string& name, const Value& there, const Value& here) {
    if (there == here) return;
    const std::string comma = found.empty() ? "" : ", ";
    found += comma + name + " " + toml_text(there);
    wanted += comma + toml_text(here);
  };
  for (const auto& [name, member] : members) compare(name, stage.*member, policy.*member);
  const auto text_of = [](const ModelConfig& model) { return std::string(to_string(model.future_heads)); };
  compare("future_heads", text_of(stage), text_of(policy));
  const auto offsets_of = [&](const ModelConfig& model) {
    std::vector<double> offsets;
    for (int64_t k = 1; k <= std::min(stage.future_tokens, policy.future_tokens); ++k)
      offsets.push_back(double(future_offset(model.future_offsets, k)));
    return offsets;
  };
  compare("future_offsets", offsets_of(stage), offsets_of(policy));
  for (const ShapeOption& option : shape_options)
    std::visit([&](auto member) { compare(option.name, stage.*member, policy.*member); }, option.member);
  if (found.empty()) return;
  diagnostics.add(position, "the stage's model has a different shape: found " + found + ", wanted " + wanted +
                                " as in this experiment");
}

}  // namespace

void check_stage(const BoundExperiment& bound, const StageUser& user, const LoadedStage& loaded,
                 Diagnostics& diagnostics) {
  const std::string& table = user.table;
  const Experiment& e = bound.experiment;
  const Experiment& stage = *loaded.experiment;
  const TomlPosition position = bound.position(table + ".experiment");
  if (e.data.tokenizer.given && stage.data.tokenizer.given) {
    const TokenizerConfig &wanted = e.data.tokenizer, &found = stage.data.tokenizer;
    if (!same_tokenizer(e, stage)) {
      diagnostics.add(position,
                      "the stage has a different tokenizer: found " + std::string(to_string(found.kind)) + " with " +
                          std::to_string(found.vocab_size) + " tokens, wanted " + to_string(wanted.kind) + " with " +
                          std::to_string(wanted.vocab_size) +
                          (wanted.kind == TokenizerKind::bpe ? ", trained on the same files" : ""),
                      "set the same [data.tokenizer] in both (kind, files and vocab_size)");
    }
  }
  const bool have_sizes_of_tokenizers = has_tokenizer(e.data) && has_tokenizer(stage.data);
  if (!have_sizes_of_tokenizers && e.model.vocab_size != stage.model.vocab_size) {
    diagnostics.add(position, "the stage has a different vocabulary: found vocab_size " +
                                  std::to_string(stage.model.vocab_size) + ", wanted " +
                                  std::to_string(e.model.vocab_size) + " as in this experiment");
  }
  if (e.data.kind == DataKind::text && stage.data.kind == DataKind::text && held_out_share(e) > 0 &&
      e.data.separator != stage.data.separator) {
    diagnostics.add(position,
                    "the stage has a different data.separator: found " + toml_text(stage.data.separator) + ", wanted " +
                        toml_text(e.data.separator) +
                        " as in this experiment, so that the stage does not train on the documents held out here",
                    "set the same [data] separator in both");
  }
  if (stage.model.max_sequence_length < e.train.sequence_length) {
    diagnostics.add(position,
                    "the stage's model is too short: found sequence_length " + std::to_string(e.train.sequence_length) +
                        ", wanted at most the stage's max_sequence_length " +
                        std::to_string(stage.model.max_sequence_length),
                    "set [model] max_sequence_length in the stage");
  }
  if (table == "model") check_same_shape(position, e.model, stage.model, diagnostics);
  const ModelConfig &policy = e.model, &other = stage.model;
  const int64_t common = common_heads(other.future_tokens, other.future_offsets, policy);
  if (is_reference_table(table) && lacks_own_heads(frozen_config(e, table).heads, common, policy.future_tokens))
    diagnostics.add(bound.position(table + ".heads"),
                    other.future_tokens < policy.future_tokens
                        ? "the stage's model has too few heads: found heads \"own\" for its future_tokens " +
                              std::to_string(other.future_tokens) + ", wanted at least " +
                              std::to_string(policy.future_tokens) + " as in this experiment"
                        : "the stage's heads predict other tokens: found heads \"own\" for its future_offsets " +
                              offsets_text(other.future_offsets, other.future_tokens) + ", wanted " +
                              offsets_text(policy.future_offsets, policy.future_tokens) + " as in this experiment",
                    own_heads_hint);
  const bool predicts_tokens = is_reference_table(table) || (table == "model" && !user.has_objective);
  if (predicts_tokens && loaded.has_objective) {
    diagnostics.add(position,
                    "the stage has no head that predicts tokens: found pipeline " + quote(stage.pipeline.plugin) +
                        ", which trains only value heads",
                    "choose an experiment whose pipeline is a weighting; value models belong in [value]");
  }
  if (table == "value" && loaded.needs && loaded.needs->heads.empty()) {
    diagnostics.add(position,
                    "the stage trains no value head: found pipeline " + quote(stage.pipeline.plugin) +
                        ", wanted one that trains a value head",
                    "choose an experiment with pipeline \"critic\"");
  }
  if (table == "value" && loaded.needs && learns_scores(*loaded.needs) && !user.reads_scores)
    diagnostics.add(
        position,
        "the stage's value head learns scores, which rank answers but do not estimate their outcome: found pipeline " +
            quote(stage.pipeline.plugin) + ", wanted one that learns values",
        scores_hint);
}

}  // namespace wmtp
