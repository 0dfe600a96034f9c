#include "huggingface/peft_adapter.hpp"

#include <algorithm>
#include <optional>

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

std::string peft_name(const std::string& block, const LayerNames& layer, const LoraPart& part) {
  return "base_model.model.model." + block + "." + std::string(layer.hf_name) + "." + part.peft_suffix;
}

std::string own_name(const std::string& block, const LayerNames& layer, const LoraPart& part) {
  return block + "." + std::string(layer.name) + "." + part.name;
}

/// Whether PEFT can represent the block.
bool in_peft(const std::string& block) { return block.starts_with("layers."); }

/// call(block, layer, part) for every part of an adapter of this shape.
template <typename Call>
void for_each_part(const LoraOptions& lora, const ModelConfig& model, Call call) {
  for (const std::string& block : block_names(model))
    for (const LayerNames& target : lora.targets) {
      const BlockLayer layer = block_layer(target, model);
      for (const LoraPart& part : lora_parts(lora, layer)) call(block, layer, part);
    }
}

void reorder(TensorCopy& move, RowOrder order, const BlockLayer& layer, const LoraPart& part) {
  if (part.has_rows_of_weight) move.reorder(order, layer.rotary_heads, layer.out);
}

SavedShape saved_shape_in(const fs::path& model) {
  if (!is_params_folder(model))
    throw Error(ExitStatus::data,
                model.string() + " contains no " + params_file_name +
                    ": choose a model of this program as base; `wmtp-host checkpoint import` makes one");
  return read_params(model, SafetensorsFolder(model));
}

ModelConfig shape_in(const fs::path& model) { return saved_shape_in(model).model; }

std::vector<TensorCopy> copies_to_peft(const SavedLora& saved, const ModelConfig& model, const fs::path& adapter,
                                       const SafetensorsFolder& files) {
  TensorCheck check(files);
  std::vector<TensorCopy> moves;
  for_each_part(saved.options, model, [&](const auto& block, const auto& layer, const auto& part) {
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

/// Adds targets found in the tensors' names (the config may give a pattern instead of names), in our order.
void complete_targets(LoraOptions& lora, const SafetensorsFolder& files) {
  const auto given = lora.targets;
  lora.targets.clear();
  for (const LayerNames& layer : linear_layers) {
    const std::string part = "." + std::string(layer.hf_name) + ".lora_";
    const bool found = std::ranges::any_of(
        files.names(), [&](const std::string& name) { return name.find(part) != std::string::npos; });
    const bool listed = std::ranges::any_of(given, [&](const LayerNames& other) { return other.layer == layer.layer; });
    if (found || listed) lora.targets.push_back(layer);
  }
}

/// The open files of a PEFT folder; its moves refer to these.
class PeftFolder {
 public:
  PeftFolder(const fs::path& folder, const ModelConfig& model)
      : folder_(folder), model_(model), files_(tensors_in(folder)) {
    lora_ = read_peft_config(folder);
    complete_targets(lora_, files_);
    if (lora_.targets.empty())
      throw Error(ExitStatus::data, folder.string() + ": it adapts none of a Llama's linear layers");
    if (is_there(folder / extra_tensors_name)) extra_.emplace(folder / extra_tensors_name);
    if (model.future_tokens > 1 && !extra_)
      throw Error(ExitStatus::data, folder.string() + " has no " + extra_tensors_name + ", and the base has " +
                                        std::to_string(model.future_tokens - 1) +
                                        " heads besides the one supported by PEFT; import the base without "
                                        "--future-tokens, or an adapter that this program exported");
  }

  std::vector<TensorCopy> moves() const {
    TensorCheck check(files_);
    std::optional<TensorCheck> extra_check;
    if (extra_) extra_check.emplace(*extra_);
    std::vector<TensorCopy> moves;
    for_each_part(lora_, model_, [&](const auto& block, const auto& layer, const auto& part) {
      const std::string name = own_name(block, layer, part);
      const bool known = in_peft(block);
      const auto place =
          known ? check.take(peft_name(block, layer, part), part.peft_shape) : extra_check->take(name, part.shape);
      if (!place) return;
      TensorCopy move{*place, {{0, name}}, part.shape};
      if (known) reorder(move, RowOrder::halves_to_pairs, layer, part);
      moves.push_back(std::move(move));
    });
    refuse_mistakes(check, extra_check);
    return moves;
  }

  LoraOptions& lora() { return lora_; }

 private:
  /// Opening a pickle fails with a message that explains how to convert it.
  static fs::path tensors_in(const fs::path& folder) {
    const fs::path pickle = folder / "adapter_model.bin";
    return is_there(pickle) && !is_there(folder / peft_tensors_name) ? pickle : folder / peft_tensors_name;
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
                       " and the base: every target layer of every block needs its update");
  }

  fs::path folder_;
  const ModelConfig& model_;
  SafetensorsFolder files_;
  std::optional<SafetensorsFolder> extra_;
  LoraOptions lora_;
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

/// fingerprint_text of a model as recorded by its adapters. Reads the whole model.
std::string model_fingerprint(const fs::path& model) {
  const SafetensorsFolder files(model);
  TensorCheck check(files);
  std::vector<std::pair<std::string, StoredTensor>> places;
  for (const ModelTensor& tensor : model_tensors(shape_in(model)))
    if (const auto place = check.take(tensor.name, tensor.shape)) places.emplace_back(tensor.name, *place);
  refuse_tensors(model.string(), check.mistakes(), "choose a complete model as base");
  uint64_t sum = 0;
  for (const auto& [name, place] : places) sum += tensor_fingerprint(place, name);
  return fingerprint_text(sum);
}

/// The base's fingerprint. Error(data) if it is not `wanted`; "" accepts any.
std::string check_base(const fs::path& adapter, const std::string& wanted, const fs::path& base) {
  const std::string found = model_fingerprint(base);
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

LoraOptions export_adapter(const AdapterExport& request) {
  const SavedLora saved = read_saved_lora(request.adapter);
  const SavedShape shape = saved_shape_in(request.shape);
  const ModelConfig& model = shape.model;
  if (request.shape_is_base) check_base(request.adapter, saved.base_fingerprint, request.shape);
  const SafetensorsFolder files(is_training_checkpoint(request.adapter) ? request.adapter
                                                                        : request.adapter / adapter_tensors_name);
  std::vector<TensorCopy> moves = copies_to_peft(saved, model, request.adapter, files);
  const SourceChecksums sums(request.adapter, "adapter");
  std::vector<std::string> names{peft_tensors_name};
  if (model.future_tokens > 1) names.emplace_back(extra_tensors_name);
  const std::string base = !request.base_name.empty() ? request.base_name
                           : request.shape_is_base    ? absolute_text(request.shape)
                                                      : saved.base_path;
  OutputFolder product(request.target);
  copy_tensors(std::move(moves), product.path(), names, sums);
  write_new_file(product.path() / peft_config_name, pretty_json(peft_config_json(saved.options, base)));
  write_new_file(product.path() / extra_identity_name, pretty_json({{"format_version", extra_format_version},
                                                                    {"base_fingerprint", saved.base_fingerprint},
                                                                    {"plus_ratio", saved.options.plus_ratio}}));
  export_tokenizer(request.shape, shape, product.path());
  product.publish();
  return saved.options;
}

LoraOptions import_adapter(const AdapterImport& request) {
  absolute_text(request.target);  // refused before anything is written
  const std::string absolute_base = absolute_text(request.base);
  const ModelConfig model = shape_in(request.base);
  PeftFolder source(request.source, model);
  const ExtraIdentity extra = read_extra_identity(request.source);
  source.lora().plus_ratio = extra.plus_ratio;
  std::vector<TensorCopy> moves = source.moves();
  const std::string base = check_base(request.source, extra.base_fingerprint, request.base);
  OutputFolder product(request.target);
  Manifest manifest;
  manifest.kind = "adapter";
  manifest.slices = copy_tensors(std::move(moves), product.path(), {adapter_tensors_name}, SourceChecksums());
  const AdapterIdentity identity{"lora", "from PEFT", option_values(source.lora()), absolute_base};
  write_new_file(product.path() / adapter_identity_name, pretty_json(identity_json(identity, base)));
  write_manifest(product.path(), manifest);
  product.publish();
  return source.lora();
}

}  // namespace wmtp
