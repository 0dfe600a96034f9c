// See schema_models.hpp.
#include "core/experiment/schema_models.hpp"

#include "core/experiment/schema_key.hpp"

namespace wmtp {
namespace {

/// A flag that is printed where it differs from what it is without a word: false, or in a frozen model's table as in
/// [model]. So an experiment that says nothing of it has the identity it always had.
template <class Usual>
Key unless_as_usual(Key flag, bool own, Usual usual) {
  flag.get = [get = flag.get, own, usual](const Experiment& e) -> std::optional<Value> {
    const auto value = get(e);
    return std::get<bool>(*value) == (!own && usual(e)) ? std::nullopt : value;
  };
  return flag.defaults_to("`false`");
}

template <class Model>
std::vector<Key> model_keys(Model model, bool own) {
  std::vector<Key> keys{
      key("dim", IN(model, dim), "width of the model").range(2, 65536),
      key("layers", IN(model, layers), "blocks of trunk and heads together; each future token's head is one block")
          .range(1, 1024),
      key("heads", IN(model, heads), "attention heads; `dim` is a multiple of them, and `dim / heads` is even")
          .range(1, 1024),
      key("kv_heads", IN(model, kv_heads), "heads of keys and values; `heads` is a multiple of them")
          .range(1, 1024)
          .defaults_to("`heads`"),
      key("ffn_dim", IN(model, ffn_dim), "width of the feed-forward layer")
          .range(1, 1 << 20)
          .defaults_to("2/3 of 4 `dim`, rounded up to a multiple of 256"),
      key("vocab_size", IN(model, vocab_size), "number of tokens")
          .range(2, 1 << 24)
          .defaults_to("the tokenizer's; required without one"),
      key("future_tokens", IN(model, future_tokens), "tokens predicted at each position, each by its own head")
          .range(1, 64),
      key("max_sequence_length", IN(model, max_sequence_length), "longest sequence that the model takes")
          .range(2, 1 << 20)
          .defaults_to("`train.sequence_length`"),
      key("rope_theta", IN(model, rope_theta), "base of the rotary position embedding").above(0),
      key("norm_eps", IN(model, norm_eps), "epsilon of the norms").above(0),
      unless_as_usual(key("qkv_bias", IN(model, qkv_bias),
                          "whether the layers of queries, keys and values have biases, as Qwen2's do"),
                      own, AT(model.qkv_bias)),
      unless_as_usual(key("tie_word_embeddings", IN(model, tie_word_embeddings),
                          "whether the output layer is the embedding's own matrix: one parameter with two uses"),
                      own, AT(model.tie_word_embeddings))};
  for (Key& one : keys) {
    if (!own) one.default_text = "as in `[model]`";
    if (one.name == "dim" || one.name == "layers" || one.name == "heads") one.is_required = own;
  }
  if (!own) {
    keys[3].default_text += ", or this table's `heads`";
    keys[4].default_text += ", or from this table's `dim`";
  }
  return keys;
}

/// `place` gives the optional itself.
template <class Place>
SchemaTable rope_table(const std::string& model, Place place, std::function<bool(const Experiment&)> has_model) {
  const auto scaling = [place](auto& e) -> auto& { return *place(e); };
  SchemaTable table{
      model + ".rope_scaling",
      std::string("Stretches the rotary positions, as Llama 3.1 and later ones do. Keys and formulas are those of "
                  "transformers. Without this table ") +
          (model == "model" ? "nothing is stretched."
                            : "it is as in `[model]`; `rope_type = \"default\"` stretches nothing."),
      {key("rope_type", IN(scaling, rope_type), "how").one_of({"default", "linear", "llama3"}).required(),
       key("factor", IN(scaling, factor), "`linear`: every angle is divided by it; `llama3`: those that turn slowly")
           .range(1, 1e6)
           .defaults_to("required by `linear` and `llama3`")
           .unset_when_empty(),
       key("low_freq_factor", IN(scaling, low_freq_factor),
           "`llama3`: angles that turn fewer times within the original length are divided by `factor`")
           .above(0)
           .defaults_to("required by `llama3`")
           .unset_when_empty(),
       key("high_freq_factor", IN(scaling, high_freq_factor),
           "`llama3`: angles that turn more often are left alone; those between the two are divided in part")
           .above(0)
           .defaults_to("required by `llama3`")
           .unset_when_empty(),
       key("original_max_position_embeddings", IN(scaling, original_max_position_embeddings),
           "`llama3`: the original length, in tokens")
           .range(2, 1 << 20)
           .defaults_to("required by `llama3`")
           .unset_when_empty()}};
  table.is_given = [place, has_model](const Experiment& e) { return has_model(e) && place(e).has_value(); };
  table.give = [place](Experiment& e) { place(e).emplace(); };
  return table;
}

template <class Frozen>
SchemaTable frozen_rope_table(const std::string& name, Frozen frozen) {
  return rope_table(
      name + ".model", [frozen](auto& e) -> auto& { return frozen(e).model->rope_scaling; },
      [frozen](const Experiment& e) { return frozen(e).model.has_value(); });
}

SchemaTable plugin_table(const std::string& name, Key plugin,
                         std::function<const PluginChoice&(const Experiment&)> choice) {
  SchemaTable table{name,
                    "Every other key is an option of the plugin: `wmtp-host plugins inspect NAME` lists them.",
                    {std::move(plugin.not_empty())}};
  table.plugin = std::move(choice);
  return table;
}

template <class Frozen>
SchemaTable frozen_table(const std::string& name, const std::string& help, Frozen frozen) {
  SchemaTable table{
      name,
      help + ": exactly one of `experiment` and `weights`.",
      {key("experiment", IN(frozen, experiment),
           "experiment that trains it; it runs first when the log holds no finished run of it")
           .not_empty()
           .is_path(Key::Names::path)
           .unset_when_empty(),
       key("weights", IN(frozen, weights), "a safetensors file or folder, or `run:NAME`")
           .not_empty()
           .is_path(Key::Names::weights)
           .unset_when_empty(),
       key("strategy", IN(frozen, strategy), "how it is sharded").defaults_to("`parallel.strategy`").not_in_identity(),
       key("precision", IN(frozen, precision), "in which it computes").defaults_to("`parallel.precision`"),
       key("cache", IN(frozen, cache), "whether what it says of a window is kept for other epochs and runs")
           .not_in_identity()}};
  table.is_given = IN(frozen, given);
  table.give = [frozen](Experiment& e) { frozen(e).given = true; };
  return table;
}

template <class Frozen>
SchemaTable frozen_model_table(const std::string& name, Frozen frozen) {
  const auto shape = [frozen](auto& e) -> auto& { return *frozen(e).model; };
  SchemaTable table{name + ".model", "The shape of `" + name + ".weights` where it differs from `[model]`.",
                    model_keys(shape, false)};
  table.is_given = [frozen](const Experiment& e) { return frozen(e).model.has_value(); };
  // All zero: what stays so is taken from [model] once that is known.
  table.give = [frozen](Experiment& e) {
    ModelConfig& empty = frozen(e).model.emplace();
    empty.future_tokens = 0;
    empty.rope_theta = empty.norm_eps = 0;
  };
  return table;
}

}  // namespace

SchemaTable pipeline_table() {
  return plugin_table("pipeline", key("plugin", AT(pipeline.plugin), "which weighting or objective").required(),
                      AT(pipeline));
}

SchemaTable inner_table() {
  const auto inner = [](auto& e) -> auto& { return *e.inner; };
  SchemaTable table = plugin_table("pipeline.inner", key("plugin", IN(inner, plugin), "which weighting").required(),
                                   [](const Experiment& e) -> const PluginChoice& { return *e.inner; });
  table.help = "The weighting that a wrapper is laid over; for wrappers only, and they need it. " + table.help;
  table.is_given = [](const Experiment& e) { return e.inner.has_value(); };
  table.give = [](Experiment& e) { e.inner.emplace(); };
  return table;
}

SchemaTable adapter_table() {
  SchemaTable table = plugin_table("adapter", key("plugin", AT(adapter.plugin), "what is trained"), AT(adapter));
  table.keys.push_back(key("weights", AT(adapter_weights),
                           "first values of the adapter's own parameters: a safetensors file or folder, or `run:NAME`")
                           .not_empty()
                           .is_path(Key::Names::weights)
                           .unset_when_empty());
  return table;
}

SchemaTable model_table() {
  SchemaTable table{"model", "A Llama that predicts several future tokens.", model_keys(AT(model), true)};
  table.keys.push_back(
      key("weights", AT(model.weights),
          "first weights: a safetensors file or folder with Meta's names or Hugging Face's, or `run:NAME`")
          .is_path(Key::Names::weights));
  table.keys.push_back(
      key("new_heads", AT(model.new_heads),
          "what heads 2, 3, ... begin as where `weights` have none: copies of their last block, or new "
          "values; adapter \"heads\" trains them alone")
          .one_of({"copy", "new"})
          .defaults_to("such weights are refused")
          .unset_when_empty());
  table.keys.push_back(key("experiment", AT(model.experiment),
                           "experiment that trains the first weights, in place of `weights`; it runs first when the "
                           "log holds no finished "
                           "run of it")
                           .not_empty()
                           .is_path(Key::Names::path)
                           .unset_when_empty());
  return table;
}

SchemaTable model_rope_table() {
  return rope_table("model", AT(model.rope_scaling), [](const Experiment&) { return true; });
}

SchemaTable reference_table() {
  return frozen_table("reference", "A frozen model beside the policy, for pipelines that read it", AT(reference));
}
SchemaTable reference_model_table() { return frozen_model_table("reference", AT(reference)); }

SchemaTable reference_rope_table() { return frozen_rope_table("reference", AT(reference)); }

SchemaTable value_table() {
  return frozen_table("value", "A frozen model with a value head, for pipelines that read its values", AT(value));
}
SchemaTable value_model_table() { return frozen_model_table("value", AT(value)); }
SchemaTable value_rope_table() { return frozen_rope_table("value", AT(value)); }

}  // namespace wmtp
