// Defaults that depend on other keys.
#include <numeric>

#include "experiment/load/rules.hpp"
#include "experiment/model_config.hpp"
#include "experiment/schema.hpp"

namespace wmtp {
namespace {

/// Llama's rule: 2/3 of 4 dim, rounded up to a multiple of 256.
int64_t llama_ffn_dim(int64_t dim) { return (8 * dim / 3 + 255) / 256 * 256; }

/// Copies values missing in a frozen model's table from [model].
void complete_shape(const BoundExperiment& bound, const std::string& table, ModelConfig& shape,
                    const ModelConfig& model) {
  for (const ShapeOption& option : shape_options)
    if (!bound.has(key_path(table, option.name)))
      std::visit([&](auto member) { shape.*member = model.*member; }, option.member);
  if (!bound.has(key_path(table, "future_heads"))) shape.future_heads = model.future_heads;
  shape.future_offsets = model.future_offsets;  // of the heads that are read (experiment/reference_heads.hpp)
  if (shape.kv_heads == 0) shape.kv_heads = shape.heads == 0 ? model.kv_heads : shape.heads;
  if (shape.ffn_dim == 0) shape.ffn_dim = shape.dim == 0 ? model.ffn_dim : llama_ffn_dim(shape.dim);
  for (int64_t ModelConfig::*member :
       {&ModelConfig::dim, &ModelConfig::layers, &ModelConfig::heads, &ModelConfig::vocab_size,
        &ModelConfig::future_tokens, &ModelConfig::max_sequence_length}) {
    if (shape.*member == 0) shape.*member = model.*member;
  }
  if (shape.rope_theta == 0) shape.rope_theta = model.rope_theta;
  if (shape.norm_eps == 0) shape.norm_eps = model.norm_eps;
  if (!shape.rope_scaling) shape.rope_scaling = model.rope_scaling;
}

/// A shape with an explicit default has the same identity as one without.
void drop_defaults(ModelConfig& model) {
  std::vector<int64_t> defaults(model.future_offsets.size());
  std::iota(defaults.begin(), defaults.end(), 1);
  const bool has_each = int64_t(defaults.size()) == model.future_tokens;  // else a mistake, which the rules report
  if (has_each && model.future_offsets == defaults) model.future_offsets.clear();
  if (model.head_dim * model.heads == model.dim) model.head_dim = 0;
  if (model.rope_scaling && model.rope_scaling->rope_type == RopeType::none) model.rope_scaling.reset();
  if (model.rope_scaling) resolve_defaults(*model.rope_scaling);
}

}  // namespace

void resolve_defaults(BoundExperiment& bound) {
  Experiment& e = bound.experiment;
  TokenizerConfig& tokenizer = e.data.tokenizer;
  if (has_tokenizer(e.data) && bound.all_valid({"data.tokenizer"})) tokenizer.given = true;
  if (tokenizer.kind == TokenizerKind::byte && !bound.has("data.tokenizer.vocab_size"))
    tokenizer.vocab_size = byte_vocab_size;
  if (e.data.difficulty.end_weights.empty()) e.data.difficulty.end_weights = e.data.difficulty.weights;
  ModelConfig& m = e.model;
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  if (m.ffn_dim == 0) m.ffn_dim = llama_ffn_dim(m.dim);
  if (m.vocab_size == 0 && has_tokenizer(e.data)) m.vocab_size = tokenizer.vocab_size;
  if (m.max_sequence_length == 0) m.max_sequence_length = e.train.sequence_length;
  drop_defaults(m);
  // A default derived from an erroneous key is erroneous too.
  const auto follow = [&](const char* key, const char* from) {
    if (!bound.has(key) && !bound.all_valid({from})) bound.invalid_keys.insert(key);
  };
  follow("model.kv_heads", "model.heads");
  follow("model.max_sequence_length", "train.sequence_length");
  for (const char* from : {"data.kind", "data.tokenizer", "data.tokenizer.kind", "data.tokenizer.vocab_size"})
    follow("model.vocab_size", from);

  if (!bound.has("optimizer.value_head_lr")) e.optimizer.value_head_lr = e.optimizer.lr;
  if (!bound.has("optimizer.momentum")) e.optimizer.momentum = traits_of(e.optimizer.kind).momentum.value_or(0);
  const auto complete = [&](const std::string& table, FrozenConfig& frozen) {
    if (!frozen.model) return;
    complete_shape(bound, table + ".model", *frozen.model, m);
    drop_defaults(*frozen.model);
  };
  complete("reference", e.reference);
  for (auto& [name, frozen] : e.references) complete(reference_table(name), frozen);
  complete("value", e.value);
}

}  // namespace wmtp
