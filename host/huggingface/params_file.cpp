#include "huggingface/params_file.hpp"

#include <algorithm>
#include <set>

#include "base/files.hpp"
#include "base/text.hpp"
#include "experiment/model_config.hpp"
#include "experiment/prompt_templates.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/rope_json.hpp"
#include "io/durable_file.hpp"
#include "io/input_file.hpp"
#include "model/model_limits.hpp"
#include "model/model_tensors.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace wmtp {
namespace {

void add_new(const std::vector<int64_t>& ids, std::vector<int64_t>& to) {
  for (const int64_t id : ids)
    if (std::find(to.begin(), to.end(), id) == to.end()) to.push_back(id);
}

/// The rows of a tensor; without it what `key` states, because a checkpoint may hold trained parameters only.
int64_t rows_of(const SafetensorsFolder& files, const std::string& tensor, ExternalJson& keys, const char* key) {
  if (const auto place = files.find(tensor); place && !place->entry->shape.empty()) return place->entry->shape[0];
  return keys.has(key) && keys.value(key).is_number_unsigned() ? keys.integer(key, 0, max_vocabulary) : 0;
}

std::string read_template(ExternalJson& keys) {
  if (!keys.has("template")) return "";
  const std::vector<std::string>& known = prompt_templates();
  const std::string found = keys.text("template");
  if (std::find(known.begin(), known.end(), found) == known.end())
    keys.refuse("template", "one of " + join_names(known));
  return found;
}

FutureHeads read_future_heads(ExternalJson& keys) {
  if (!keys.has("future_heads")) return FutureHeads::parallel;
  if (const auto heads = from_name<FutureHeads>(keys.text("future_heads"))) return *heads;
  keys.refuse("future_heads", "\"parallel\", \"chained\" or \"shared\"");
  return FutureHeads::parallel;
}

std::vector<int64_t> read_future_offsets(ExternalJson& keys, const ModelConfig& model) {
  if (!keys.has("future_offsets")) return {};
  const Json& list = keys.value("future_offsets");
  std::vector<int64_t> offsets;
  const auto follows = [&](const Json& one) {
    return one.is_number_unsigned() && one.get<uint64_t>() <= uint64_t(max_future_offset) &&
           (offsets.empty() ? one == 1 : one.get<int64_t>() > offsets.back());
  };
  for (const Json& one : list.is_array() ? list : Json::array())
    if (follows(one)) offsets.push_back(one.get<int64_t>());
  const bool has_each = list.size() == offsets.size() && int64_t(offsets.size()) == model.future_tokens;
  if (has_each && !has_chained_heads(model)) return offsets;
  keys.refuse("future_offsets", has_chained_heads(model)
                                    ? std::string("no such key for ") + to_string(model.future_heads) + " heads"
                                    : "rising integers from 1 to at most " + std::to_string(max_future_offset) +
                                          ", one for each of the " + counted(model.future_tokens, "head"));
  return {};
}

/// Keys that read_params reads, and those of Meta's and Mistral's files that state what the tensors show, or what only
/// those programs need.
const std::set<std::string>& known_keys() {
  static const std::set<std::string> known = [] {
    std::set<std::string> names{"activation",
                                "bos_token_id",
                                "dim",
                                "eos_token_id",
                                "ffn_dim",
                                "ffn_dim_multiplier",
                                "future_heads",
                                "future_offsets",
                                "hidden_dim",
                                "max_batch_size",
                                "max_position_embeddings",
                                "max_seq_len",
                                "model_type",
                                "moe",
                                "multiple_of",
                                "n_future_tokens",
                                "n_heads",
                                "n_kv_heads",
                                "n_layers",
                                "norm_eps",
                                "quantization_args",
                                "rope_scaling",
                                "rope_theta",
                                "template",
                                "tokenizer",
                                "use_scaled_rope",
                                "value_heads",
                                "vocab_size"};
    for (const ShapeOption& option : shape_options) names.insert(option.name);
    return names;
  }();
  return known;
}

/// Other keys may change what the model computes.
std::string no_such_key(const std::string& key) {
  const std::string meant = nearest_name(key, {known_keys().begin(), known_keys().end()});
  return "no such key, which may change what is computed" + (meant.empty() ? "" : ": is it " + meant + "?");
}

bool is_off(const Json& value) { return value.is_null() || value == false; }

}  // namespace

void read_heads(ExternalJson& keys, std::optional<int64_t> default_count, ModelConfig& model) {
  model.future_tokens = keys.integer("n_future_tokens", 1, max_future_tokens, default_count);
  model.future_heads = read_future_heads(keys);
  model.future_offsets = read_future_offsets(keys, model);
}

void add_heads_json(const ModelConfig& model, Json& to) {
  if (has_chained_heads(model)) to["future_heads"] = to_string(model.future_heads);
  if (!model.future_offsets.empty()) to["future_offsets"] = model.future_offsets;
}

Json read_value_heads(ExternalJson& keys) {
  const auto has_text = [](const Json& head, const char* key) { return head.contains(key) && head[key].is_string(); };
  const auto is_head = [&](const Json& head) {
    return head.is_object() && has_text(head, "name") && has_text(head, "kind") &&
           (head.size() == 2 || (head.size() == 3 && has_text(head, "meaning") &&
                                 (head["meaning"] == "value" || head["meaning"] == "score")));
  };
  if (!keys.has("value_heads")) return Json::array();
  const Json& heads = keys.value("value_heads");
  if (heads.is_array() && std::all_of(heads.begin(), heads.end(), is_head)) return heads;
  keys.refuse("value_heads",
              "a list of {\"name\", \"kind\"} or {\"name\", \"kind\", \"meaning\": \"value\" or \"score\"}");
  return Json::array();
}

Json read_token_ids(ExternalJson& keys, const char* key) {
  if (!keys.has(key)) return nullptr;
  const Json& ids = keys.value(key);
  const auto is_id = [](const Json& id) { return id.is_number_unsigned() && id.get<uint64_t>() < max_vocabulary; };
  if (is_id(ids) || (ids.is_array() && !ids.empty() && std::all_of(ids.begin(), ids.end(), is_id))) return ids;
  keys.refuse(key, "an id, or a list of ids");
  return nullptr;
}

std::vector<int64_t> end_tokens(const std::filesystem::path& folder) {
  std::vector<int64_t> ids;
  for (const char* name : {params_file_name, hf_config_name, generation_config_name}) {
    if (!is_there(folder / name)) continue;
    ExternalJson keys(folder / name);
    const Json found = read_token_ids(keys, "eos_token_id");
    keys.finish("compare it with tokenizer_config.json");
    add_new(token_ids(found), ids);
  }
  return ids;
}

Json token_ids_json(const std::vector<int64_t>& ids) {
  return ids.empty() ? Json() : ids.size() == 1 ? Json(ids[0]) : Json(ids);
}

std::vector<int64_t> token_ids(const Json& json) {
  if (json.is_array()) return json;
  return json.is_null() ? std::vector<int64_t>() : std::vector<int64_t>{json};
}

void write_generation_config(const std::filesystem::path& from, const std::vector<int64_t>& ends,
                             const std::filesystem::path& folder) {
  const std::filesystem::path file = from / generation_config_name;
  if (!is_there(file)) return;
  ExternalJson keys(file);
  const std::vector<int64_t> named = token_ids(read_token_ids(keys, "eos_token_id"));
  keys.finish("compare it with tokenizer_config.json");
  std::vector<int64_t> all = named;
  add_new(ends, all);
  if (all.size() == named.size()) {
    copy_from_folder(from, generation_config_name, folder);
    return;
  }
  OrderedJson config = OrderedJson::parse(read_small_file(file, max_external_json_bytes));
  config["eos_token_id"] = token_ids_json(all);
  write_new_file(folder / generation_config_name, config.dump(2) + "\n");
}

SavedShape read_params(const std::filesystem::path& folder, const SafetensorsFolder& files) {
  ExternalJson keys(folder / params_file_name);
  SavedShape saved;
  ModelConfig& model = saved.model;
  model.dim = keys.integer("dim", 2, max_dim);
  model.layers = keys.integer("n_layers", 1, max_layers);
  model.heads = keys.integer("n_heads", 1, max_heads);
  model.kv_heads = keys.integer("n_kv_heads", 1, max_heads, model.heads);
  read_heads(keys, 1, model);
  model.rope_theta = read_rope_theta(keys, "rope_scaling", 10000.0);
  model.norm_eps = keys.positive("norm_eps", 1e-5);
  model.vocab_size = rows_of(files, embedding_weight, keys, "vocab_size");
  model.ffn_dim = rows_of(files, "layers.0.feed_forward.w1.weight", keys, "ffn_dim");
  for_each_shape_option(model, [&](const ShapeOption& option, auto& value) {
    if constexpr (std::is_same_v<decltype(value), bool&>)
      value = keys.flag(option.name, false);
    else if constexpr (std::is_same_v<decltype(value), double&>)
      value = keys.positive(option.name, 0.0);
    else
      value = keys.integer(option.name, option.least, option.most, 0);
  });
  const char* const length = keys.has("max_seq_len") ? "max_seq_len" : "max_position_embeddings";
  saved.has_max_sequence_length = keys.has(length);
  model.max_sequence_length = keys.integer(length, 2, max_positions, 0);
  using enum SavedTokenizer;
  keys.only("tokenizer", {to_string(byte), to_string(bpe), to_string(tokenizer_json)});
  saved.bos_token_id = read_token_ids(keys, "bos_token_id");
  saved.eos_token_id = read_token_ids(keys, "eos_token_id");
  saved.tokenizer = from_name<SavedTokenizer>(keys.text("tokenizer")).value_or(none);
  saved.prompt_template = read_template(keys);
  model.rope_scaling = read_rope_scaling(keys, "rope_scaling");
  if (!model.rope_scaling) keys.only("use_scaled_rope", {false});
  keys.only("moe", {});
  keys.only("quantization_args", {});
  keys.only("model_type", {"transformer", "llama", "mistral"});
  keys.only("activation", {"silu"});
  keys.refuse_unknown(known_keys(), is_off, no_such_key);
  saved.value_heads = read_value_heads(keys);
  for (const std::string& mistake : head_mistakes(model)) keys.refuse("n_heads", mistake);
  if (model.qk_norm && model.joint_qk_norm) keys.refuse("joint_qk_norm", "false where qk_norm is true");
  if (model.layers < model.future_tokens)
    keys.refuse("n_layers", "one for each of the " + std::to_string(model.future_tokens) + " future tokens");
  keys.finish("only the shape of a plain Llama is supported");
  return saved;
}

bool predicts_tokens(const SavedShape& saved, const SafetensorsFolder& files) {
  const std::string block = head_block_name(saved.model, 1), layer(block_layers(saved.model, block).front().name);
  return files.find(block + "." + layer + ".weight").has_value();
}

std::string pretty_json(const Json& document) { return document.dump(2) + "\n"; }

std::string params_text(const SavedShape& saved) {
  const ModelConfig& m = saved.model;
  Json params{{"dim", m.dim},
              {"n_layers", m.layers},
              {"n_heads", m.heads},
              {"n_kv_heads", m.kv_heads},
              {"n_future_tokens", m.future_tokens},
              {"rope_theta", m.rope_theta},
              {"norm_eps", m.norm_eps},
              {"vocab_size", m.vocab_size},
              {"ffn_dim", m.ffn_dim}};
  add_heads_json(m, params);
  if (m.rope_scaling) {
    params["rope_scaling"] = rope_scaling_json(*m.rope_scaling);
    params["use_scaled_rope"] = true;
  }
  for_each_shape_option(m, [&](const ShapeOption& option, const auto& value) {
    if (value) params[option.name] = value;
  });
  if (m.max_sequence_length > 0) params["max_seq_len"] = m.max_sequence_length;
  if (!saved.value_heads.empty()) params["value_heads"] = saved.value_heads;
  if (saved.tokenizer != SavedTokenizer::none) params["tokenizer"] = to_string(saved.tokenizer);
  if (!saved.bos_token_id.is_null()) params["bos_token_id"] = saved.bos_token_id;
  if (!saved.eos_token_id.is_null()) params["eos_token_id"] = saved.eos_token_id;
  if (!saved.prompt_template.empty()) params["template"] = saved.prompt_template;
  return pretty_json(params);
}

}  // namespace wmtp
