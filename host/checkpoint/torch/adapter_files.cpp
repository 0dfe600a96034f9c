#include "checkpoint/torch/adapter_files.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors_folder.hpp"
#include "checkpoint/torch/model_files.hpp"
#include "checkpoint/verify.hpp"
#include "huggingface/params_file.hpp"
#include "io/input_file.hpp"
#include "model/model_tensors.hpp"
#include "shard/whole_parameters.hpp"

namespace wmtp {
namespace {

using at::Tensor;
namespace fs = std::filesystem;

/// All that trains, except value heads.
std::vector<ParameterSet> sets_of_adapter(const ShardedModel& model) {
  std::vector<ParameterSet> sets = parameter_sets(model);
  std::erase_if(sets, [](const ParameterSet& set) { return !set.trains || set.unit == "value_heads"; });
  return sets;
}

/// Writes one folder. [rank 0]
class AdapterWriter {
 public:
  AdapterWriter(const fs::path& folder, const std::vector<ParameterSet>& sets)
      : draft_(folder), writer_(draft_.path() / adapter_tensors_name, entries_of(sets), {{"format", "pt"}}) {}

  void write(const ParameterSpec& spec, const Tensor& given) {
    const Tensor value = given.contiguous();
    writer_.write(spec.name, 0, value.const_data_ptr(), size_t(value.nbytes()));
    slices_.push_back({parameter_prefix + spec.name, spec.shape, 0, value.numel(), adapter_tensors_name, spec.name,
                       crc32c(value.const_data_ptr(), size_t(value.nbytes()))});
  }

  void publish(Manifest manifest, const Json& identity) {
    writer_.finish();
    write_new_file(draft_.path() / adapter_identity_name, pretty_json(identity));
    manifest.slices = std::move(slices_);
    write_manifest(draft_.path(), manifest);
    draft_.publish();
  }

 private:
  FolderDraft draft_;
  SafetensorsWriter writer_;
  std::vector<Slice> slices_;
};

[[noreturn]] void refuse(const fs::path& folder, const std::string& why) {
  throw Error(ExitStatus::data, folder.string() + ": " + why);
}

/// Checks plugin and options, then what `tensors` checks, then the base, which depends on the parameters that train.
void check_identity(const fs::path& folder, const AdapterIdentity& adapter, const std::string& base,
                    const std::function<void()>& tensors) {
  const std::string where = (folder / adapter_identity_name).string();
  const Json found = parse_strict_json(read_small_file(folder / adapter_identity_name, 1 << 20), where);
  const auto text = [&](const char* key) {
    return found.is_object() && found.contains(key) ? found[key].dump() : std::string("nothing");
  };
  const Json wanted = identity_json(adapter, base);
  const auto compare = [&](const char* key, const std::string& what, const std::string& advice) {
    if (text(key) != wanted[key].dump())
      refuse(where, what + " is " + text(key) + ", but here " + wanted[key].dump() + "; " + advice);
  };
  compare("format_version", "its format_version", "load it with the program that wrote it");
  compare("plugin", "its plugin", "set [adapter] plugin to the one it was trained with");
  if (text("options") != wanted["options"].dump()) {
    const Json options = found.value("options", Json());
    for (const auto& [name, value] : wanted["options"].items()) {
      const std::string saved = options.is_object() && options.contains(name) ? options[name].dump() : "not given";
      if (saved != value.dump())
        refuse(where, "its option " + name + " is " + saved + ", but here " + value.dump() + "; set [adapter] " + name +
                          " to the value it was trained with");
    }
    refuse(where, "it was saved with options " + text("options") + ", this run has " + wanted["options"].dump());
  }
  tensors();
  compare("base_fingerprint", "the fingerprint of the model it was trained on",
          "start from that model: set [model] weights, or model and seed, as in that run");
}

void check_tensors(const fs::path& folder, const SafetensorsFolder& files, const ShardedModel& model) {
  const std::string advice = "; set [adapter] train and train_last as they were when it was trained";
  std::set<std::string> known;
  for (const ParameterSet& set : sets_of_adapter(model))
    for (const ParameterSpec* spec : set.parameters) {
      known.insert(spec->name);
      const auto place = files.find(spec->name);
      const std::string shape = c10::str(at::IntArrayRef(spec->shape));
      if (!place)
        refuse(folder,
               "tensor '" + spec->name + "' is missing; " +
                   (set.unit == adapter_unit_name ? "the adapter needs F32 " + shape : "it trains here" + advice));
      if (place->entry->shape != spec->shape || place->entry->dtype != "F32")
        refuse(folder, "tensor '" + spec->name + "' is " + place->entry->dtype + " " +
                           c10::str(at::IntArrayRef(place->entry->shape)) + ", the adapter has F32 " + shape);
    }
  const auto is_in_model = [&](const std::string& name) {
    return std::ranges::any_of(model.whole(), [&](const UnitSpec& unit) {
      return std::ranges::any_of(unit.parameters, [&](const ParameterSpec& spec) { return spec.name == name; });
    });
  };
  for (const std::string& name : files.names())
    if (!known.count(name) && !is_of_value_head(name))
      refuse(folder, "tensor '" + name + "' is not part of the adapter" +
                         (is_in_model(name) ? ", because it does not train here" + advice : ""));
}

}  // namespace

void save_adapter(const fs::path& folder, int64_t step, const std::string& config_hash, const AdapterIdentity& adapter,
                  ShardedModel& model) {
  const std::string base = fingerprint_text(model.base_fingerprint());
  const std::vector<ParameterSet> sets = sets_of_adapter(model);
  Peers& peers = model.channels().peers();
  std::optional<AdapterWriter> writer;
  std::optional<Error> failure;
  const auto attempt = [&](auto&& work) {
    if (peers.rank() == 0 && !failure) failure = failure_of(work);
  };
  attempt([&] { writer.emplace(folder, sets); });
  for (const ParameterSet& set : sets) {
    const GatheredSet gathered(model, set);  // on all ranks, even if rank 0 cannot write
    if (model.channels().rank() != 0) continue;
    for (const ParameterSpec* spec : set.parameters) {
      const Tensor value =
          passed_to_rank0(model, *spec, gathered.has(spec->name) ? gathered.parameter(spec->name) : Tensor());
      attempt([&] { writer->write(*spec, value); });
    }
  }
  attempt([&] {
    Manifest manifest;
    manifest.step = step;
    manifest.kind = ManifestKind::adapter;
    manifest.config_hash = config_hash;
    writer->publish(std::move(manifest), identity_json(adapter, base));
  });
  peers.rethrow_on_all_ranks("writing the adapter", failure);
}

void load_adapter(const fs::path& folder, const AdapterIdentity& adapter, ShardedModel& model) {
  const std::string base = fingerprint_text(model.base_fingerprint());
  if (!model.has_adapter())
    refuse(folder, "adapter '" + adapter.plugin + "' adds no parameters to load; remove [adapter] weights");
  const Manifest manifest = verify_checkpoint(folder);
  const bool is_checkpoint = manifest.kind == ManifestKind::resume && manifest.files.contains(adapter_identity_name);
  if (manifest.kind != ManifestKind::adapter && !is_checkpoint)
    refuse(folder, std::string("found kind \"") + to_string(manifest.kind) + "\" in its manifest, wanted \"adapter\"" +
                       "; specify the adapter folder of a run, or its checkpoint");
  const SafetensorsFolder files(is_checkpoint ? folder : folder / adapter_tensors_name);
  check_identity(folder, adapter, base, [&] { check_tensors(folder, files, model); });
  model.fill([&](const ParameterSpec& spec, int64_t begin, int64_t count, float* out) {
    const auto saved = is_of_value_head(spec.name) ? std::nullopt : files.find(spec.name);
    if (!saved) return false;
    saved->read(begin, count, out);
    return true;
  });
}

std::vector<std::string> trained_parameters_in(const fs::path& folder, const ModelConfig& model) {
  const SafetensorsFile file(folder / adapter_tensors_name);
  std::vector<std::string> names;
  for (const ModelTensor& tensor : model_tensors(model))
    if (file.find(tensor.name)) names.push_back(tensor.name);
  return names;
}

}  // namespace wmtp
