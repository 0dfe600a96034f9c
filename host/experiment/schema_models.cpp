// The schema's tables of plugins and models: [pipeline], [adapter], [model], [reference], [references.NAME], [value].
#include "experiment/model_config.hpp"
#include "experiment/schema_key.hpp"

namespace wmtp {
namespace {

/// The key of an architecture option. Printed only if it differs from its default: none, or in a frozen model's table
/// the value of [model].
template <class Model, class Member>
Key shape_key(const ShapeOption& option, Model model, Member ModelConfig::*member, bool is_policy) {
  Key result = key(
      option.name, [ model, member ](auto& e) -> auto& { return model(e).*member; }, option.help);
  result.get = [model, member, is_policy](const Experiment& e) {
    const Member value = model(e).*member;
    return value == (is_policy ? Member{} : e.model.*member) ? std::nullopt : to_value(value);
  };
  if constexpr (std::is_same_v<Member, int64_t>) result.range(double(option.least), double(option.most));
  if constexpr (std::is_same_v<Member, double>) result.above(0);
  return result.defaults_to(option.default_text);
}

template <class Model>
std::vector<Key> model_keys(Model model, bool is_policy) {
  std::vector<Key> keys{
      key("dim", IN(model, dim), "width of the residual stream").range(2, 65536),
      key("layers", IN(model, layers), "blocks of the trunk, and one for each head, also if heads share a block")
          .range(1, 1024),
      key("heads", IN(model, heads),
          "attention heads; without `head_dim` a divisor of `dim`, and `dim / heads` is even")
          .range(1, 1024),
      key("kv_heads", IN(model, kv_heads), "heads of keys and values; a divisor of `heads`")
          .range(1, 1024)
          .defaults_to("`heads`"),
      key("ffn_dim", IN(model, ffn_dim), "width of the feed-forward layers")
          .range(1, 1 << 20)
          .defaults_to("8/3 `dim`, rounded up to a multiple of 256"),
      key("vocab_size", IN(model, vocab_size), "number of tokens")
          .range(2, 1 << 24)
          .defaults_to("the tokenizer's; required for `tokens`, `random` and a `file` tokenizer, unless `weights` "
                       "state it"),
      key("future_tokens", IN(model, future_tokens), "future tokens predicted at each position, one head for each")
          .range(1, 64),
      key("max_sequence_length", IN(model, max_sequence_length), "maximum length of a sequence, in tokens")
          .range(2, 1 << 20)
          .defaults_to("`train.sequence_length`, or that of `weights` if larger"),
      key("rope_theta", IN(model, rope_theta), "base of the rotary position embedding").above(0),
      key("norm_eps", IN(model, norm_eps), "epsilon of RMSNorm").above(0)};
  for (const ShapeOption& option : shape_options)
    std::visit([&](auto member) { keys.push_back(shape_key(option, model, member, is_policy)); }, option.member);
  for (Key& one : keys) {
    if (!is_policy) one.default_text = "as in `[model]`";
    if (is_policy && (one.name == "dim" || one.name == "layers" || one.name == "heads")) {
      one.required_without = "model.weights";
      one.default_text = "required unless `weights` state it";
    }
  }
  if (!is_policy) {
    keys[3].default_text += "; this table's `heads` if given";
    keys[4].default_text += "; computed from this table's `dim` if given";
  }
  return keys;
}

/// `accessor` returns the std::optional.
template <class Accessor>
SchemaTable rope_table(const std::string& model, Accessor accessor, std::function<bool(const Experiment&)> has_model) {
  const auto scaling = [accessor](auto& e) -> auto& { return *accessor(e); };
  SchemaTable table{
      model + ".rope_scaling",
      model == "model" ? "As in Hugging Face transformers. Default: no scaling."
                       : "Default: as in `[model]`; `rope_type = \"default\"` means no scaling.",
      {key("rope_type", IN(scaling, rope_type),
           "`default`: no scaling; `linear`: of all angles; `llama3`: of low frequencies; `yarn`: of low frequencies, "
           "with a factor on queries and keys (Peng et al. 2023)")
           .required(),
       key("factor", IN(scaling, factor), "divisor of the scaled angles")
           .range(1, 1e6)
           .defaults_to("required, except by `default`")
           .unset_when_empty(),
       key("low_freq_factor", IN(scaling, low_freq_factor),
           "angles with fewer rotations within the original length are divided by `factor`")
           .above(0)
           .defaults_to("required by and only for `llama3`")
           .unset_when_empty(),
       key("high_freq_factor", IN(scaling, high_freq_factor),
           "angles with more rotations are not scaled; between the two factors the scaling is interpolated")
           .above(0)
           .defaults_to("required by and only for `llama3`")
           .unset_when_empty(),
       key("original_max_position_embeddings", IN(scaling, original_max_position_embeddings),
           "the original length, that of pretraining, in tokens")
           .range(2, 1 << 20)
           .defaults_to("required by and only for `llama3`, `yarn`")
           .unset_when_empty(),
       key("attention_factor", IN(scaling, attention_factor),
           "`yarn`: factor on rotated queries and keys, so its square on attention scores")
           .above(0)
           .defaults_to("0.1 ln(`factor`) + 1")
           .unset_when_empty(),
       key("beta_fast", IN(scaling, beta_fast), "`yarn`: as `high_freq_factor`")
           .above(0)
           .defaults_to("32")
           .unset_when_empty(),
       key("beta_slow", IN(scaling, beta_slow), "`yarn`: as `low_freq_factor`")
           .above(0)
           .defaults_to("1")
           .unset_when_empty()}};
  table.is_given = [accessor, has_model](const Experiment& e) { return has_model(e) && accessor(e).has_value(); };
  table.mark_given = [accessor](Experiment& e) { accessor(e).emplace(); };
  return table;
}

template <class Frozen>
SchemaTable frozen_rope_table(const std::string& name, Frozen frozen) {
  return rope_table(
      name + ".model", [frozen](auto& e) -> auto& { return frozen(e).model->rope_scaling; },
      [frozen](const Experiment& e) { return frozen(e).model.has_value(); });
}

SchemaTable plugin_table(const std::string& name, const std::string& help, Key plugin,
                         std::function<const PluginChoice&(const Experiment&)> choice) {
  SchemaTable table{name, help, {std::move(plugin.not_empty())}};
  table.plugin = std::move(choice);
  return table;
}

template <class Frozen>
SchemaTable frozen_table(const std::string& name, const std::string& help, Frozen frozen) {
  SchemaTable table = optional_table(
      {name,
       help + ". Requires exactly one of `experiment` and `weights`.",
       {key("experiment", IN(frozen, experiment),
            "experiment that trains the model; it runs first unless the log has a finished run of it")
            .not_empty()
            .is_path(PathKind::path)
            .unset_when_empty(),
        key("weights", IN(frozen, weights), "its weights, in any form of `model.weights`")
            .not_empty()
            .is_path(PathKind::weights)
            .unset_when_empty(),
        key("strategy", IN(frozen, strategy), "its sharding, as `parallel.strategy`")
            .defaults_to("`parallel.strategy`")
            .not_in_identity(),
        key("precision", IN(frozen, precision), "its number format, as `parallel.precision`")
            .defaults_to("`parallel.precision`"),
        key("cache", IN(frozen, cache), "whether later epochs and runs reuse its outputs, stored in a file")
            .not_in_identity()}},
      IN(frozen, given));
  if (is_reference_table(name))  // the identity has what follows from it (job/identity.cpp)
    table.keys.push_back(key("heads", IN(frozen, heads),
                             "which of its heads the policy's head k is compared with: `own`: head k, which has read "
                             "the same tokens; `next`: the next-token head, which has read more; `auto`: `own` "
                             "if it has at least as many heads as the policy, with the same offsets, else `next`")
                             .not_in_identity());
  return table;
}

template <class Frozen>
SchemaTable frozen_model_table(const std::string& name, Frozen frozen) {
  const auto shape = [frozen](auto& e) -> auto& { return *frozen(e).model; };
  SchemaTable table{name + ".model",
                    "The shape of `" + name +
                        ".weights` where it differs from `[model]`; without this table, that of the "
                        "`config.json` or `params.json` in the folder of the weights, if it has one.",
                    model_keys(shape, false)};
  if (is_reference_table(name)) {
    Key future_heads = key("future_heads", IN(shape, future_heads), "").defaults_to("as in `[model]`");
    future_heads.get = [shape](const Experiment& e) {
      const FutureHeads value = shape(e).future_heads;
      return value == e.model.future_heads ? std::nullopt : to_value(value);  // keeps earlier identities
    };
    table.keys.push_back(future_heads);
  }
  table.is_given = [frozen](const Experiment& e) { return frozen(e).model.has_value(); };
  // Values that remain zero are later copied from [model].
  table.mark_given = [frozen](Experiment& e) {
    ModelConfig& empty = frozen(e).model.emplace();
    empty.future_tokens = 0;
    empty.rope_theta = empty.norm_eps = 0;
  };
  return table;
}

/// All that a frozen model's table has.
template <class Frozen>
std::vector<SchemaTable> frozen_model_tables(const std::string& name, const std::string& help, Frozen frozen) {
  return {frozen_table(name, help, frozen), frozen_model_table(name, frozen), frozen_rope_table(name, frozen)};
}

/// The model of [references.NAME], which an experiment that has no such table lacks.
struct NamedReference {
  std::string name;
  FrozenConfig& operator()(Experiment& e) const { return e.references[name]; }
  const FrozenConfig& operator()(const Experiment& e) const { return e.references.at(name); }
};

SchemaTable references_table() {
  return {"references",
          "More frozen models, each with a name: `[references.amateur]`, `[references.amateur.model]`. Their keys are "
          "those of `[reference]`. A `formula` reads `amateur_loss` and `amateur_entropy`, and so the contrast between "
          "two of them. A name has at most 32 lower case letters, digits and `_`, the first a letter; `reference`, "
          "`policy`, `value` and `data` are reserved. Auxiliary losses and the log's samples know only `[reference]`.",
          {}};
}

SchemaTable pipeline_table() {
  return plugin_table("pipeline",
                      "All other keys here, in `[pipeline.inner]`, `[auxiliary_loss]` and `[adapter]` are options of "
                      "the plugin; `wmtp-host plugins inspect NAME` lists them.",
                      key("plugin", AT(pipeline.plugin), "name of the weighting, wrapper or objective").required(),
                      AT(pipeline));
}

SchemaTable inner_table() {
  const auto inner = [](auto& e) -> auto& { return *e.inner; };
  SchemaTable table = plugin_table(
      "pipeline.inner", "The weighting that a wrapper modifies; required by wrappers, refused for other pipelines.",
      key("plugin", IN(inner, plugin), "name of the weighting").required(),
      [](const Experiment& e) -> const PluginChoice& { return *e.inner; });
  table.is_given = [](const Experiment& e) { return e.inner.has_value(); };
  table.mark_given = [](Experiment& e) { e.inner.emplace(); };
  return table;
}

SchemaTable auxiliary_loss_table() {
  const auto auxiliary_loss = [](auto& e) -> auto& { return *e.auxiliary_loss; };
  SchemaTable table = plugin_table("auxiliary_loss", "A loss of the logits that is added to the weighted token loss.",
                                   key("plugin", IN(auxiliary_loss, plugin), "name of the auxiliary loss").required(),
                                   [](const Experiment& e) -> const PluginChoice& { return *e.auxiliary_loss; });
  table.is_given = [](const Experiment& e) { return e.auxiliary_loss.has_value(); };
  table.mark_given = [](Experiment& e) { e.auxiliary_loss.emplace(); };
  return table;
}

SchemaTable adapter_table() {
  SchemaTable table =
      plugin_table("adapter", "",
                   key("plugin", AT(adapter.plugin), "name of the adapter; `full` trains all parameters"), AT(adapter));
  table.keys.push_back(
      key("weights", AT(adapter_weights),
          "initial values: `adapter/` of a run, the folder of an imported adapter, a checkpoint, `run:NAME` or "
          "`run:NAME@STEP`")
          .not_empty()
          .is_path(PathKind::weights)
          .unset_when_empty());
  table.keys.push_back(key("train_last", AT(trained_parts.last_blocks),
                           "last blocks of trunk and heads (`model.layers`, of which shared heads have one) that "
                           "train. It and `train` replace the "
                           "adapter's choice: the model's other parameters are frozen, and those that the adapter "
                           "adds, as `lora` does, also train")
                           .range(1, 4096)
                           .defaults_to("the adapter decides")
                           .unset_when_empty());
  table.keys.push_back(
      key("train", AT(trained_parts.names),
          "shell patterns of parameters that train in addition to `train_last`, such as `[\"norm.weight\", "
          "\"layers.*.attention.*\"]`, by Meta's names; a weight that the adapter changes cannot train as well")
          .not_empty()
          .defaults_to("the adapter decides")
          .unset_when_empty());
  return table;
}

SchemaTable model_table() {
  SchemaTable table{"model",
                    "The policy: a Llama that predicts several future tokens. If `weights` is a folder with a "
                    "`config.json` or `params.json`, keys of the shape that are not given are taken from it, and "
                    "`layers` counts one block for each of `future_tokens`; without `future_tokens`, the model has the "
                    "heads of the weights, or 4 if they have one and `new_heads` is given.",
                    model_keys(AT(model), true)};
  Key future_heads =
      key("future_heads", AT(model.future_heads),
          "input of heads 2, 3, ...: `parallel`: the trunk's output; `chained`: the output of the head before and the "
          "embedding of the token that it predicts, as in DeepSeek-V3, but read before the final norm; `shared`: as "
          "`chained`, with one block that all these heads apply, as in FastMTP; requires `future_tokens` above 1")
          .defaults_to("`\"parallel\"`");
  future_heads.get = [](const Experiment& e) {
    return has_chained_heads(e.model) ? to_value(e.model.future_heads) : std::nullopt;  // keeps earlier identities
  };
  table.keys.push_back(future_heads);
  table.keys.push_back(key("future_offsets", AT(model.future_offsets),
                           "tokens ahead that each head predicts, one for each of `future_tokens`, rising from 1, as "
                           "`[1, 3, 5, 7]` in L-MTP; only for `parallel` heads")
                           .range(1, 256)
                           .not_empty()
                           .defaults_to("1, 2, ... `future_tokens`; those of `weights` with several heads")
                           .unset_when_empty());
  table.keys.push_back(key("weights", AT(model.weights),
                           "initial weights: a safetensors file or folder with names of Meta or Hugging Face, a run's "
                           "folder or checkpoint, `run:NAME`, `run:NAME@STEP` or `run:NAME@best`; empty, without "
                           "`experiment`: drawn from `seed`")
                           .is_path(PathKind::weights));
  table.keys.push_back(key("new_heads", AT(model.new_heads),
                           "initial values of heads 2, 3, ... when `weights` lack them: copies of the last block, or "
                           "drawn from `seed`")
                           .one_of({"copy", "new"})
                           .defaults_to("weights without these heads are refused")
                           .unset_when_empty());
  table.keys.push_back(key("experiment", AT(model.experiment),
                           "instead of `weights`: experiment that trains them; it runs first unless the log has a "
                           "finished run of it")
                           .not_empty()
                           .is_path(PathKind::path)
                           .unset_when_empty());
  return table;
}

}  // namespace

std::vector<SchemaTable> model_tables() {
  std::vector<SchemaTable> tables{
      pipeline_table(),
      inner_table(),
      auxiliary_loss_table(),
      adapter_table(),
      model_table(),
      rope_table("model", AT(model.rope_scaling), [](const Experiment&) { return true; })};
  for (const auto& part :
       {frozen_model_tables("reference", "A frozen model, for pipelines that read its outputs", AT(reference)),
        {references_table()},
        frozen_model_tables("value", "A frozen model with a value head, for pipelines that read its values",
                            AT(value))})
    tables.insert(tables.end(), part.begin(), part.end());
  return tables;
}

std::vector<SchemaTable> reference_tables(const std::string& name) {
  return frozen_model_tables(reference_table(name), "", NamedReference{name});
}

}  // namespace wmtp
