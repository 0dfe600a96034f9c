#include "huggingface/peft_adapter.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/files.hpp"
#include "base/normal_path.hpp"
#include "base/utf8.hpp"
#include "base/weight_fingerprint.hpp"
#include "checkpoint/adapter_identity.hpp"
#include "checkpoint/tensor_check.hpp"
#include "huggingface/external_json.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/model_export.hpp"
#include "huggingface/params_file.hpp"
#include "huggingface/tensor_stream.hpp"
#include "io/durable_file.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr const char* extra_tensors_name = "mtp_adapter.safetensors";
constexpr const char* extra_identity_name = "mtp_adapter.json";
constexpr int extra_format_version = 1;

constexpr const char* peft_prefix = "base_model.model.";

/// The layer's module in Hugging Face's model.
std::string hf_module(const std::string& block, const LayerNames& layer) {
  return "model." + block + "." + std::string(layer.hf_name);
}

std::string peft_name(const std::string& block, const LayerNames& layer, const LoraPart& part) {
  return peft_prefix + hf_module(block, layer) + "." + part.peft_suffix;
}

std::string own_name(const std::string& block, const LayerNames& layer, const LoraPart& part) {
  return block + "." + std::string(layer.name) + "." + part.name;
}

/// Whether PEFT can represent the block.
bool in_peft(const std::string& block) { return block.starts_with("layers."); }

/// What an adapter contains, in the order of the model.
struct Content {
  std::vector<std::pair<std::string, LayerNames>> layers;  ///< that have an update, by their block
  std::vector<ModelTensor> trained;                        ///< as a whole

  std::set<std::string> trained_names() const {
    std::set<std::string> names;
    for (const ModelTensor& tensor : trained) names.insert(tensor.name);
    return names;
  }
};

/// `has_update(block, layer)`, `has_tensor(tensor)`: whether the adapter contains them.
template <typename HasUpdate, typename HasTensor>
Content content_of(const ModelConfig& model, HasUpdate has_update, HasTensor has_tensor) {
  Content content;
  for (const std::string& block : block_names(model))
    for (const LayerNames& layer : linear_layers)
      if (has_update(block, layer)) content.layers.emplace_back(block, layer);
  for (ModelTensor& tensor : model_tensors(model))
    if (has_tensor(tensor)) content.trained.push_back(std::move(tensor));
  return content;
}

bool has_any_part(const SafetensorsFolder& files, const LoraOptions& lora, const std::string& block,
                  const LayerNames& layer,
                  std::string (*name_of)(const std::string&, const LayerNames&, const LoraPart&)) {
  const std::vector<LoraPart> parts = lora_parts(lora, BlockLayer{layer, 0, 0, 0});
  return std::ranges::any_of(parts,
                             [&](const LoraPart& part) { return files.find(name_of(block, layer, part)).has_value(); });
}

/// call(block, layer, part) for every part of the updates.
template <typename Call>
void for_each_part(const LoraOptions& lora, const ModelConfig& model, const Content& content, Call call) {
  for (const auto& [block, target] : content.layers) {
    const BlockLayer layer = block_layer(target, model);
    for (const LoraPart& part : lora_parts(lora, layer)) call(block, layer, part);
  }
}

void reorder(TensorCopy& move, RowOrder order, const BlockLayer& layer, const LoraPart& part) {
  if (part.has_rows_of_weight) move.reorder(order, layer.rotary_heads, layer.out);
}

/// The targets that choose these layers: "wq" in all blocks, "layers.*.wq", "extra_heads.*.wq", else names.
std::vector<std::string> patterns_of(const Content& content, const ModelConfig& model) {
  const std::vector<std::string> blocks = block_names(model);
  const int64_t of_peft = std::ranges::count_if(blocks, in_peft), others = int64_t(blocks.size()) - of_peft;
  std::vector<std::string> patterns;
  for (const LayerNames& layer : linear_layers) {
    std::vector<std::string> names;
    int64_t found_of_peft = 0;
    for (const auto& [block, other] : content.layers)
      if (other.layer == layer.layer) {
        names.push_back(block + "." + std::string(layer.name));
        found_of_peft += in_peft(block);
      }
    const int64_t found_others = int64_t(names.size()) - found_of_peft;
    const std::string target(layer.target());
    if (names.size() == blocks.size())
      patterns.push_back(target);
    else if (found_of_peft == of_peft && found_others == 0)
      patterns.push_back("layers.*." + target);
    else if (found_of_peft == 0 && found_others == others && others > 0)
      patterns.push_back("extra_heads.*." + target);
    else
      patterns.insert(patterns.end(), names.begin(), names.end());
  }
  return patterns;
}

/// Of parameters that train: "extra_heads.0.*" for a whole block, else names.
std::vector<std::string> trained_patterns(const Content& content, const ModelConfig& model) {
  std::map<std::string, std::pair<int64_t, int64_t>> counts;  // of a unit's parameters: those that train, all
  for (const ModelTensor& tensor : model_tensors(model)) ++counts[tensor.unit()].second;
  for (const ModelTensor& tensor : content.trained) ++counts[tensor.unit()].first;
  std::vector<std::string> patterns;
  for (const ModelTensor& tensor : content.trained) {
    const auto [trained, all] = counts.at(tensor.unit());
    const std::string pattern = trained == all && all > 1 ? tensor.unit() + ".*" : tensor.name;
    if (patterns.empty() || patterns.back() != pattern) patterns.push_back(pattern);
  }
  return patterns;
}

std::string hf_module_of(const ModelTensor& tensor) { return tensor.hf_name.substr(0, tensor.hf_name.rfind('.')); }

/// The modules of PEFT's config. Error(data) for what PEFT cannot hold.
PeftModules peft_modules(const fs::path& adapter, const Content& content, const ModelConfig& model) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ExitStatus::data,
                adapter.string() + ": PEFT cannot hold it: " + why + "; export the merged model with --to hf instead");
  };
  PeftModules modules;
  modules.targets.emplace();
  const std::vector<std::string> blocks = block_names(model);
  std::set<std::string> adapted;
  for (const LayerNames& layer : linear_layers) {
    std::vector<std::string> names;
    for (const auto& [block, other] : content.layers)
      if (other.layer == layer.layer && in_peft(block)) names.push_back(hf_module(block, layer));
    adapted.insert(names.begin(), names.end());
    if (int64_t(names.size()) == std::ranges::count_if(blocks, in_peft)) names = {std::string(layer.hf_target())};
    modules.targets->insert(modules.targets->end(), names.begin(), names.end());
  }
  if (adapted.empty()) refuse("it changes no layer of the trunk and head 1");
  const std::set<std::string> trained = content.trained_names();
  if (model.tie_word_embeddings && trained.contains(embedding_weight))
    refuse(std::string(embedding_weight) + " trained and is also the output layer, of which PEFT trains a copy");
  for (const ModelTensor& tensor : content.trained) {
    if (tensor.hf_name.empty()) continue;
    const std::string module = hf_module_of(tensor);
    if (adapted.contains(module)) refuse(tensor.name + " trained, but its layer has an update");
    for (const ModelTensor& other : model_tensors(model))
      if (!other.hf_name.empty() && hf_module_of(other) == module && !trained.contains(other.name))
        refuse(tensor.name + " trained, but " + other.name + " of the same module did not");
    if (std::ranges::find(modules.saved, module) == modules.saved.end()) modules.saved.push_back(module);
  }
  return modules;
}

SavedShape saved_shape_in(const fs::path& model) {
  if (!is_params_folder(model))
    throw Error(ExitStatus::data,
                model.string() + " contains no " + params_file_name +
                    ": choose a model of this program as base; `wmtp-host checkpoint import` makes one");
  return read_params(model, SafetensorsFolder(model));
}

ModelConfig shape_in(const fs::path& model) { return saved_shape_in(model).model; }

std::vector<TensorCopy> copies_to_peft(const SavedLora& saved, const ModelConfig& model, const Content& content,
                                       const fs::path& adapter, const SafetensorsFolder& files) {
  TensorCheck check(files);
  std::vector<TensorCopy> moves;
  for_each_part(saved.options, model, content, [&](const auto& block, const auto& layer, const auto& part) {
    const auto place = check.take(own_name(block, layer, part), part.shape);
    if (!place) return;
    if (!in_peft(block)) {
      moves.push_back({*place, {{1, own_name(block, layer, part)}}, part.shape});
      return;
    }
    TensorCopy move{*place, {{0, peft_name(block, layer, part)}}, part.peft_shape};
    reorder(move, RowOrder::pairs_to_halves, layer, part);
    moves.push_back(std::move(move));
  });
  for (const ModelTensor& tensor : content.trained) {
    const auto place = check.take(tensor.name, tensor.shape);
    if (!place) continue;
    const bool is_known = !tensor.hf_name.empty();
    const TensorCopy::Target target{is_known ? 0U : 1U, is_known ? peft_prefix + tensor.hf_name : tensor.name};
    TensorCopy move{*place, {target}, tensor.shape};
    if (is_known) move.reorder(RowOrder::pairs_to_halves, tensor.rotary_heads, tensor.shape[0]);
    moves.push_back(std::move(move));
  }
  check.check_rest();
  refuse_tensors(adapter.string(), check.mistakes(), "the adapter does not fit the shape of the model");
  return moves;
}

/// mtp_adapter.json of a PEFT folder written by export_adapter.
struct ExtraIdentity {
  std::string base_fingerprint;  ///< "" if unknown
  double plus_ratio = 1;
};

ExtraIdentity read_extra_identity(const fs::path& folder) {
  ExtraIdentity extra;
  if (!is_there(folder / extra_identity_name)) return extra;
  ExternalJson keys(folder / extra_identity_name);
  keys.integer("format_version", extra_format_version, extra_format_version);
  extra.plus_ratio = keys.positive("plus_ratio", 1.0);
  extra.base_fingerprint = keys.text("base_fingerprint", "the fingerprint of the base");
  keys.finish("export the adapter again");
  return extra;
}

/// The open files of a PEFT folder; its moves refer to these.
class PeftFolder {
 public:
  PeftFolder(const fs::path& folder, const ModelConfig& model)
      : folder_(folder), model_(model), files_(tensors_in(folder)) {
    const PeftConfig config = read_peft_config(folder);
    lora_ = config.lora;
    base_ = config.base;
    if (is_there(folder / extra_tensors_name)) extra_.emplace(folder / extra_tensors_name);
    const PeftModules& modules = config.modules;
    content_ = content_of(
        model,
        [&](const std::string& block, const LayerNames& layer) {
          if (!in_peft(block)) return extra_ && has_any_part(*extra_, lora_, block, layer, own_name);
          return modules.targets ? modules.are_targets(hf_module(block, layer), block_number(block))
                                 : has_any_part(files_, lora_, block, layer, peft_name);
        },
        [&](const ModelTensor& tensor) {
          return tensor.hf_name.empty() ? extra_ && extra_->find(tensor.name)
                                        : modules.are_saved(peft_prefix + tensor.hf_name);
        });
    if (content_.layers.empty())
      throw Error(ExitStatus::data, folder.string() + ": it adapts none of a Llama's linear layers");
    check_saved(modules);
    lora_.targets = patterns_of(content_, model);
  }

  std::vector<TensorCopy> moves() const {
    TensorCheck check(files_);
    std::optional<TensorCheck> extra_check;
    if (extra_) extra_check.emplace(*extra_);
    std::vector<TensorCopy> moves;
    for_each_part(lora_, model_, content_, [&](const auto& block, const auto& layer, const auto& part) {
      const std::string name = own_name(block, layer, part);
      const bool known = in_peft(block);
      const auto place =
          known ? check.take(peft_name(block, layer, part), part.peft_shape) : extra_check->take(name, part.shape);
      if (!place) return;
      TensorCopy move{*place, {{0, name}}, part.shape};
      if (known) reorder(move, RowOrder::halves_to_pairs, layer, part);
      moves.push_back(std::move(move));
    });
    for (const ModelTensor& tensor : content_.trained) {
      const bool known = !tensor.hf_name.empty();
      const auto place =
          known ? check.take(peft_prefix + tensor.hf_name, tensor.shape) : extra_check->take(tensor.name, tensor.shape);
      if (!place) continue;
      TensorCopy move{*place, {{0, tensor.name}}, tensor.shape};
      if (known) move.reorder(RowOrder::halves_to_pairs, tensor.rotary_heads, tensor.shape[0]);
      moves.push_back(std::move(move));
    }
    refuse_mistakes(check, extra_check);
    return moves;
  }

  LoraOptions& lora() { return lora_; }
  const Content& content() const { return content_; }
  const StatedBase& base() const { return base_; }

 private:
  /// Opening a pickle fails with a message that explains how to convert it.
  static fs::path tensors_in(const fs::path& folder) {
    const fs::path pickle = folder / "adapter_model.bin";
    return is_there(pickle) && !is_there(folder / peft_tensors_name) ? pickle : folder / peft_tensors_name;
  }

  /// Every module to save must be one of the model's, and a copy of tied embeddings is none.
  void check_saved(const PeftModules& modules) const {
    const auto refuse = [&](const std::string& why) {
      throw Error(ExitStatus::data, (folder_ / peft_config_name).string() + ": modules_to_save " + why);
    };
    for (const std::string& name : modules.saved) {
      const PeftModules one{{}, {}, {name}};
      const bool is_known = std::ranges::any_of(content_.trained, [&](const ModelTensor& tensor) {
        return !tensor.hf_name.empty() && one.are_saved(peft_prefix + tensor.hf_name);
      });
      if (!is_known)
        refuse("contains \"" + name + "\", which names no parameter of the base that has a place of its own");
    }
    if (model_.tie_word_embeddings && content_.trained_names().contains(embedding_weight))
      refuse("contains the embedding, which in the base is also the output layer: PEFT trained a copy of it");
  }

  void refuse_mistakes(TensorCheck& check, std::optional<TensorCheck>& extra_check) const {
    check.check_rest();
    std::vector<std::string> mistakes = check.mistakes();
    if (extra_check) {
      extra_check->check_rest();
      mistakes.insert(mistakes.end(), extra_check->mistakes().begin(), extra_check->mistakes().end());
    }
    refuse_tensors(folder_.string(), mistakes,
                   std::string("compare the files with ") + peft_config_name +
                       " and the base: every module that it names needs its tensors");
  }

  fs::path folder_;
  const ModelConfig& model_;
  SafetensorsFolder files_;
  std::optional<SafetensorsFolder> extra_;
  LoraOptions lora_;
  StatedBase base_;
  Content content_;
};

uint64_t tensor_fingerprint(const StoredTensor& place, const std::string& name) {
  constexpr int64_t piece = 64 << 10;
  const int64_t count = (place.entry->end - place.entry->begin) / dtype_size(place.entry->dtype);
  std::vector<float> values(piece);
  uint64_t sum = 0;
  for (int64_t begin = 0; begin < count; begin += piece) {
    const int64_t some = std::min(piece, count - begin);
    place.read(begin, some, values.data());
    sum += fingerprint(name, begin, values.data(), some);
  }
  return sum;
}

/// fingerprint_text of a model as recorded by adapters beside which `trained` trained. Reads the whole model.
std::string model_fingerprint(const fs::path& model, const std::set<std::string>& trained) {
  const SafetensorsFolder files(model);
  TensorCheck check(files);
  std::vector<std::pair<std::string, StoredTensor>> places;
  for (const ModelTensor& tensor : model_tensors(shape_in(model)))
    if (const auto place = check.take(tensor.name, tensor.shape)) places.emplace_back(tensor.name, *place);
  refuse_tensors(model.string(), check.mistakes(), "choose a complete model as base");
  uint64_t sum = 0;
  for (const auto& [name, place] : places)
    if (!trained.contains(name)) sum += tensor_fingerprint(place, name);
  return fingerprint_text(sum);
}

/// The base's fingerprint. Error(data) if it is not `wanted`; "" accepts any.
std::string check_base(const fs::path& adapter, const std::string& wanted, const fs::path& base,
                       const Content& content) {
  const std::string found = model_fingerprint(base, content.trained_names());
  if (!wanted.empty() && wanted != found)
    throw Error(ExitStatus::data, adapter.string() + ": it was trained on a model with the fingerprint " + wanted +
                                      ", " + base.string() + " has " + found +
                                      "; specify the model that its run started from");
  return found;
}

}  // namespace

std::string absolute_text(const fs::path& folder) {
  const std::string text = absolute_path(folder).string();
  check_is_utf8(text, "the path of the model");
  return text;
}

void export_adapter(const AdapterExport& request) {
  const SavedLora saved = read_saved_lora(request.adapter);
  const SavedShape shape = saved_shape_in(request.shape);
  const ModelConfig& model = shape.model;
  const SafetensorsFolder files(is_training_checkpoint(request.adapter) ? request.adapter
                                                                        : request.adapter / adapter_tensors_name);
  const Content content = content_of(
      model,
      [&](const std::string& block, const LayerNames& layer) {
        return has_any_part(files, saved.options, block, layer, own_name);
      },
      [&](const ModelTensor& tensor) { return files.find(tensor.name).has_value(); });
  if (request.shape_is_base) check_base(request.adapter, saved.base_fingerprint, request.shape, content);
  std::vector<TensorCopy> moves = copies_to_peft(saved, model, content, request.adapter, files);
  const PeftModules modules = peft_modules(request.adapter, content, model);
  const SourceChecksums sums(request.adapter, ManifestKind::adapter);
  std::vector<std::string> names{peft_tensors_name};
  if (std::ranges::any_of(moves, [](const TensorCopy& move) { return move.targets.front().file == 1; }))
    names.emplace_back(extra_tensors_name);
  const std::string base = !request.base_name.empty() ? request.base_name
                           : request.shape_is_base    ? absolute_text(request.shape)
                                                      : saved.base_path;
  OutputFolder product(request.target);
  copy_tensors(std::move(moves), product.path(), names, sums);
  write_new_file(product.path() / peft_config_name, pretty_json(peft_config_json(saved.options, modules, base)));
  write_new_file(product.path() / extra_identity_name, pretty_json({{"format_version", extra_format_version},
                                                                    {"base_fingerprint", saved.base_fingerprint},
                                                                    {"plus_ratio", saved.options.plus_ratio}}));
  export_tokenizer(request.shape, shape, product.path());
  product.publish();
}

ImportedAdapter import_adapter(const AdapterImport& request) {
  absolute_text(request.target);  // refused before anything is written
  const std::string absolute_base = absolute_text(request.base);
  const ModelConfig model = shape_in(request.base);
  PeftFolder source(request.source, model);
  const ExtraIdentity extra = read_extra_identity(request.source);
  source.lora().plus_ratio = extra.plus_ratio;
  std::vector<TensorCopy> moves = source.moves();
  const std::string base = check_base(request.source, extra.base_fingerprint, request.base, source.content());
  OutputFolder product(request.target);
  Manifest manifest;
  manifest.kind = ManifestKind::adapter;
  manifest.slices = copy_tensors(std::move(moves), product.path(), {adapter_tensors_name}, SourceChecksums());
  const AdapterIdentity identity{lora_adapter, "from PEFT", option_values(source.lora()), absolute_base};
  write_new_file(product.path() / adapter_identity_name, pretty_json(identity_json(identity, base)));
  write_manifest(product.path(), manifest);
  product.publish();
  return {source.lora(), trained_patterns(source.content(), model),
          extra.base_fingerprint.empty() ? source.base() : StatedBase()};
}

}  // namespace wmtp
