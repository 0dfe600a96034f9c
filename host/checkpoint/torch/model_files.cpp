#include "checkpoint/torch/model_files.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/work_progress.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors_folder.hpp"
#include "checkpoint/tensor_check.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/model_import.hpp"
#include "io/durable_file.hpp"
#include "io/input_file.hpp"
#include "memory/allocator.hpp"
#include "model/model_tensors.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace wmtp {
namespace {

using at::Tensor;
constexpr const char* file_name = "model.safetensors";

SavedShape shape_of(const ShardedModel& model, const ModelTokenizer& tokenizer) {
  SavedShape saved;
  saved.model = model.config();
  saved.tokenizer = tokenizer.kind;
  saved.bos_token_id = tokenizer.bos_token_id;
  saved.eos_token_id = tokenizer.eos_token_id;
  saved.prompt_template = tokenizer.prompt_template;
  for (const ValueHeadModule& module : model.value_heads())  // on rank 0, which writes them
    saved.value_heads.push_back(
        {{"name", module.name()}, {"kind", module.head().kind}, {"meaning", module.head().meaning}});
  return saved;
}

std::map<std::string, Linear> linears_by_weight(const ShardedModel& model) {
  std::map<std::string, Linear> linears;
  const auto add = [&](const std::string& block) {
    for (Linear& linear : block_linears(model.config(), block)) linears.emplace(linear.name + ".weight", linear);
  };
  for (const std::string& block : block_names(model.config())) add(block);
  return linears;
}

Tensor merged(const Adapter& adapter, const Linear& linear, Tensor weight, const GatheredSet& parameters) {
  std::vector<Tensor> params;
  for (const Param& param : declared(&adapter, linear))
    if (const std::string name = linear.name + "." + param.name; parameters.has(name))
      params.push_back(parameters.parameter(name));
  if (params.empty()) return weight;
  return dynamic_cast<const LinearAdapter&>(adapter).merged(linear, weight, params).contiguous();
}

/// The contents of model.safetensors: all parameters except the adapter's.
std::vector<ParameterSet> sets_of_model(const ShardedModel& model) {
  std::vector<ParameterSet> sets = parameter_sets(model);
  std::erase_if(sets, [](const ParameterSet& set) { return set.unit == adapter_unit_name; });
  return sets;
}

}  // namespace

std::vector<TensorEntry> entries_of(const std::vector<ParameterSet>& sets) {
  std::vector<TensorEntry> entries;
  for (const ParameterSet& set : sets)
    for (const ParameterSpec* spec : set.parameters) entries.push_back({spec->name, "F32", spec->shape});
  return entries;
}

std::optional<Error> for_each_saved_tensor(const ShardedModel& model, const Adapter* adapter,
                                           const VisitSaved& on_tensor) {
  std::optional<Error> failure;
  const auto attempt = [&](auto&& work) {
    if (failure) return;
    failure = failure_of(work);
  };
  const GatheredSet adapter_parameters(model, adapter_set(model));
  const auto linears = linears_by_weight(model);
  const auto whole_value = [&](const GatheredSet& gathered, const std::string& name) {
    const Tensor value = gathered.parameter(name);
    const auto linear = linears.find(name);
    return adapter && linear != linears.end() ? merged(*adapter, linear->second, value, adapter_parameters) : value;
  };
  const bool is_alone = model.section().count == 1;
  const bool takes_part = is_alone ? bool(on_tensor) : model.channels().rank() == 0;  // the first rank of each section
  for (const ParameterSet& set : sets_of_model(model)) {
    const GatheredSet gathered(model, set);
    if (!takes_part || (is_alone && failure)) continue;
    std::optional<UncountedScope> in_host_memory;
    if (gathered.is_on_device()) in_host_memory.emplace();
    for (const ParameterSpec* spec : set.parameters) {
      Tensor value;
      if (gathered.has(spec->name)) attempt([&] { value = whole_value(gathered, spec->name); });
      if (!is_alone) value = passed_to_rank0(model, *spec, value);
      if (on_tensor) attempt([&] { on_tensor(*spec, value); });
    }
  }
  return failure;
}

ModelDescription describe_model(const ShardedModel& model, const ModelTokenizer& tokenizer) {
  return {params_text(shape_of(model, tokenizer)), tokenizer};
}

void write_description(const std::filesystem::path& folder, const ModelDescription& description) {
  const ModelTokenizer& tokenizer = description.tokenizer;
  write_new_file(folder / params_file_name, description.params);
  if (!tokenizer.file.empty() && tokenizer.kind != SavedTokenizer::byte) copy_tokenizer_files(tokenizer.file, folder);
  if (const auto& from = tokenizer.generation_config_from; !from.empty())
    write_generation_config(from, token_ids(tokenizer.eos_token_id), folder);
}

int64_t save_model(const std::filesystem::path& folder, int64_t step, const std::string& config_hash,
                   ShardedModel& model, const Adapter* adapter, const ModelTokenizer& tokenizer) {
  Peers& peers = model.channels().peers();
  const bool writes = peers.rank() == 0;
  std::optional<FolderDraft> draft;
  std::optional<SafetensorsWriter> writer;
  Manifest manifest;
  const std::vector<TensorEntry> entries = entries_of(sets_of_model(model));
  std::optional<Error> failure;
  const auto attempt = [&](auto&& work) {
    if (writes && !failure) failure = failure_of(work);
  };
  attempt([&] {
    draft.emplace(folder);
    writer.emplace(draft->path() / file_name, entries, std::map<std::string, std::string>{{"format", "pt"}});
  });
  int64_t all = 0;
  for (const TensorEntry& entry : entries) all += c10::multiply_integers(entry.shape) * int64_t(sizeof(float));
  WorkProgress progress("writing the model", all, WorkProgress::Unit::bytes);
  const auto write = [&](const ParameterSpec& spec, const Tensor& value) {
    const size_t bytes = size_t(value.nbytes());
    writer->write(spec.name, 0, value.const_data_ptr(), bytes);
    manifest.slices.push_back({parameter_prefix + spec.name, spec.shape, 0, value.numel(), file_name, spec.name,
                               crc32c(value.const_data_ptr(), bytes)});
    progress.advance(int64_t(bytes));
  };
  const bool is_writing = writes && !failure;
  const auto failed = for_each_saved_tensor(model, adapter, is_writing ? VisitSaved(write) : nullptr);
  if (!failure) failure = failed;
  attempt([&] {
    writer->finish();
    write_description(draft->path(), describe_model(model, tokenizer));
    manifest.step = step;
    manifest.kind = ManifestKind::model;
    manifest.config_hash = config_hash;
    write_manifest(draft->path(), manifest);
    draft->publish();
  });
  peers.rethrow_on_all_ranks("writing the model", failure);
  return writes ? writer->file_size() : 0;
}

void load_model(const std::filesystem::path& weights, ShardedModel& model) {
  const InitialWeights source(weights, model.config(), model.num_heads());
  const ShardUnit* adapter = model.adapter_unit();
  std::set<std::string> known, not_zero;
  for (const ModelTensor& tensor : model_tensors(model.config()))
    if (!tensor.may_be_zero()) not_zero.insert(tensor.name);
  const auto read = [&](const ParameterSpec& spec, int64_t begin, int64_t count, float* out) {
    const bool may_initialize = is_of_value_head(spec.name) ? spec.trains : adapter && adapter->holds(spec.name);
    const auto tensor = source.find(spec.name, spec.shape, may_initialize);
    if (tensor) tensor->read(begin, count, out);
    // A part may hold only zeros, as rows of unused ids do; only then is the tensor looked at as a whole.
    if (tensor && not_zero.contains(spec.name) && std::all_of(out, out + count, [](float value) { return value == 0; }))
      tensor->place.check_not_zero();
    return tensor.has_value();
  };
  model.fill(read, "loading " + weights.filename().string());
  for (const UnitSpec& unit : model.whole())
    for (const ParameterSpec& spec : unit.parameters) known.insert(spec.name);
  source.check_names(known);
}

void load_trained(const std::filesystem::path& checkpoint, ShardedModel& model) {
  const SafetensorsFolder files(checkpoint);
  std::set<std::string> left;
  for (const std::string& name : files.names()) left.insert(name);
  model.fill([&](const ParameterSpec& spec, int64_t begin, int64_t count, float* out) {
    const auto place = files.find(spec.name);
    if (!place) return false;
    if (place->entry->shape != spec.shape)
      throw Error(ExitStatus::data, checkpoint.string() + ": tensor '" + spec.name + "' has shape " +
                                        shape_text(place->entry->shape) + ", the model has " + shape_text(spec.shape));
    place->read(begin, count, out);
    left.erase(spec.name);
    return true;
  });
  if (!left.empty())
    throw Error(ExitStatus::data, checkpoint.string() + ": tensor '" + *left.begin() + "' is not part of the model");
}

std::vector<ValueHead> read_saved_value_heads(const std::filesystem::path& folder) {
  if (!is_params_folder(folder)) return {};
  std::vector<ValueHead> heads;
  for (const Json& head : read_params(folder, SafetensorsFolder(folder)).value_heads)
    heads.push_back({head.at("name"), head.at("kind"), head.value("meaning", "")});
  return heads;
}

ModelTokenizer read_model_tokenizer(const std::filesystem::path& folder) {
  const bool is_hf = is_hf_folder(folder);
  if (!is_hf && !is_params_folder(folder)) return {};
  SavedShape saved = is_hf ? read_hf_shape(folder) : read_params(folder, SafetensorsFolder(folder));
  const std::string left_out = is_hf ? find_tokenizer(folder, saved) : "";
  ModelTokenizer tokenizer{saved.tokenizer,       {},      saved.bos_token_id, saved.eos_token_id,
                           saved.prompt_template, left_out};
  const bool is_bpe = tokenizer.kind == SavedTokenizer::bpe;
  if (!is_bpe && tokenizer.kind != SavedTokenizer::tokenizer_json) return tokenizer;
  tokenizer.file = folder / (is_bpe ? tokenizer_model_name : tokenizer_json_name);
  if (!std::filesystem::exists(tokenizer.file))
    throw Error(ExitStatus::data, (folder / params_file_name).string() + ": its tokenizer \"" +
                                      to_string(tokenizer.kind) + "\" needs " + tokenizer.file.string() +
                                      ", which is missing");
  return tokenizer;
}

}  // namespace wmtp
