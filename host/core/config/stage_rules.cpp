// See stage_rules.hpp.
#include "core/config/stage_rules.hpp"

#include <algorithm>

#include "core/config/data_rules.hpp"
#include "core/experiment/schema.hpp"

namespace wmtp {
namespace {

bool learns_scores(const PluginNeeds& needs) {
  return std::any_of(needs.heads.begin(), needs.heads.end(),
                     [](const std::string& head) { return head.ends_with(", score)"); });
}

// The policy takes over the stage's tensors as they are; their number of tokens is told with the tokenizer.
void check_same_shape(const TomlPlace& place, const ModelConfig& ours, const ModelConfig& theirs,
                      Diagnostics& diagnostics) {
  const std::pair<const char*, int64_t ModelConfig::*> members[] = {
      {"dim", &ModelConfig::dim},         {"layers", &ModelConfig::layers},
      {"heads", &ModelConfig::heads},     {"kv_heads", &ModelConfig::kv_heads},
      {"ffn_dim", &ModelConfig::ffn_dim}, {"future_tokens", &ModelConfig::future_tokens}};
  std::string found, wanted;
  for (const auto& [name, member] : members) {
    if (ours.*member == theirs.*member) continue;
    const std::string comma = found.empty() ? "" : ", ";
    found += comma + name + " " + std::to_string(theirs.*member);
    wanted += comma + std::to_string(ours.*member);
  }
  for (const auto& [name, flag] : shape_flags) {
    if (ours.*flag == theirs.*flag) continue;
    const std::string comma = found.empty() ? "" : ", ";
    found += comma + name + " " + toml_text(theirs.*flag);
    wanted += comma + toml_text(ours.*flag);
  }
  if (found.empty()) return;
  diagnostics.add(place, "the stage's model has another shape: found " + found + ", wanted " + wanted + " as here");
}

}  // namespace

void check_stage(const Bound& bound, const StageUser& user, const LoadedStage& loaded, Diagnostics& diagnostics) {
  const std::string& table = user.table;
  const Experiment& e = bound.experiment;
  const Experiment& stage = *loaded.experiment;
  const TomlPlace place = bound.place(table + ".experiment");
  if (has_tokenizer(e.data) && has_tokenizer(stage.data)) {
    const TokenizerConfig &ours = e.data.tokenizer, &theirs = stage.data.tokenizer;
    if (!same_tokenizer(e, stage)) {
      diagnostics.add(place,
                      "the stage has another tokenizer: found " + theirs.kind + " with " +
                          std::to_string(theirs.vocab_size) + " tokens, wanted " + ours.kind + " with " +
                          std::to_string(ours.vocab_size) + (ours.kind == "bpe" ? ", trained on the same files" : ""),
                      "give both the same [data.tokenizer] (kind, files and vocab_size)");
    }
  } else if (e.model.vocab_size != stage.model.vocab_size) {
    diagnostics.add(place, "the stage has " + std::to_string(stage.model.vocab_size) + " tokens, wanted vocab_size " +
                               std::to_string(e.model.vocab_size) + " as here");
  }
  if (e.data.kind == "text" && stage.data.kind == "text" && held_out_share(e) > 0 &&
      e.data.separator != stage.data.separator) {
    diagnostics.add(place,
                    "the stage splits its files at another data.separator: found " + toml_text(stage.data.separator) +
                        ", wanted " + toml_text(e.data.separator) +
                        " as here, so that it leaves out what is held out here",
                    "give both the same [data] separator");
  }
  if (stage.model.max_sequence_length < e.train.sequence_length) {
    diagnostics.add(place,
                    "a sequence longer than the stage's model: found sequence_length " +
                        std::to_string(e.train.sequence_length) + ", wanted at most " +
                        std::to_string(stage.model.max_sequence_length),
                    "set [model] max_sequence_length in the stage");
  }
  if (table == "model") check_same_shape(place, e.model, stage.model, diagnostics);
  const bool predicts_tokens = table == "reference" || (table == "model" && !user.has_objective);
  if (predicts_tokens && loaded.has_objective) {
    diagnostics.add(place,
                    "the stage leaves no head that predicts tokens: found pipeline " + quote(stage.pipeline.plugin) +
                        ", which trains value heads alone",
                    "name an experiment whose pipeline is a weighting; a value model stands in [value]");
  }
  if (table == "value" && loaded.needs && loaded.needs->heads.empty()) {
    diagnostics.add(place,
                    "the stage trains no value head: found pipeline " + quote(stage.pipeline.plugin) +
                        ", wanted one that has values to give",
                    "name an experiment with pipeline \"critic\"");
  }
  if (table == "value" && loaded.needs && learns_scores(*loaded.needs) && !user.reads_scores)
    diagnostics.add(
        place,
        "the stage's value head learns scores, which rank answers and are no expected outcomes: found pipeline " +
            quote(stage.pipeline.plugin) + ", wanted one that learns values",
        scores_hint);
}

}  // namespace wmtp
