#include "checkpoint/torch/adapter_files.hpp"

#include <optional>
#include <set>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors_folder.hpp"
#include "checkpoint/verify.hpp"
#include "huggingface/params_file.hpp"
#include "io/input_file.hpp"

namespace wmtp {
namespace {

using at::Tensor;
namespace fs = std::filesystem;

/// [rank 0]
void write_folder(const fs::path& folder, Manifest manifest, const Json& identity, const ParameterGroup& group,
                  const Tensor& flat) {
  FolderDraft draft(folder);
  std::vector<TensorEntry> entries;
  for (const FlatParameter& placed : group.parameters())
    entries.push_back({placed.spec.name, "F32", placed.spec.shape});
  SafetensorsWriter writer(draft.path() / adapter_tensors_name, std::move(entries), {{"format", "pt"}});
  for (const FlatParameter& placed : group.parameters()) {
    const Tensor value = flat.narrow(0, placed.offset, placed.count).to(at::kCPU, at::kFloat).contiguous();
    writer.write(placed.spec.name, 0, value.const_data_ptr(), size_t(value.nbytes()));
    manifest.slices.push_back({parameter_prefix + placed.spec.name, placed.spec.shape, 0, placed.count,
                               adapter_tensors_name, placed.spec.name,
                               crc32c(value.const_data_ptr(), size_t(value.nbytes()))});
  }
  writer.finish();
  write_new_file(draft.path() / adapter_identity_name, pretty_json(identity));
  write_manifest(draft.path(), manifest);
  draft.publish();
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& why) {
  throw Error(ExitStatus::data, folder.string() + ": " + why);
}

void check_identity(const fs::path& folder, const AdapterIdentity& adapter, const std::string& base) {
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
  compare("base_fingerprint", "the fingerprint of the model it was trained on",
          "start from that model: set [model] weights, or model and seed, as in that run");
}

void check_tensors(const fs::path& folder, const SafetensorsFolder& files, const ParameterGroup& group) {
  std::set<std::string> known;
  for (const FlatParameter& placed : group.parameters()) {
    known.insert(placed.spec.name);
    const auto place = files.find(placed.spec.name);
    const std::string shape = c10::str(at::IntArrayRef(placed.spec.shape));
    if (!place) refuse(folder, "tensor '" + placed.spec.name + "' is missing; the adapter needs F32 " + shape);
    if (place->entry->shape != placed.spec.shape || place->entry->dtype != "F32")
      refuse(folder, "tensor '" + placed.spec.name + "' is " + place->entry->dtype + " " +
                         c10::str(at::IntArrayRef(place->entry->shape)) + ", the adapter has F32 " + shape);
  }
  for (const std::string& name : files.names())
    if (!known.count(name) && !name.starts_with("value_heads."))
      refuse(folder, "tensor '" + name + "' is not part of the adapter");
}

}  // namespace

bool only_adapter_trains(const ShardedModel& model) {
  if (!model.adapter_unit()) return false;
  for (const auto& unit : model.units())
    for (const auto& group : unit->groups())
      if (group->trains() && unit.get() != model.adapter_unit() && unit->name() != "value_heads") return false;
  return true;
}

void save_adapter(const fs::path& folder, int64_t step, const std::string& config_hash, const AdapterIdentity& adapter,
                  ShardedModel& model, Channels& channels) {
  ParameterGroup& group = *model.adapter_unit()->groups().front();
  const std::string base = fingerprint_text(model.base_fingerprint());
  const Tensor flat = group.gather_master();
  const auto write = [&] {
    if (channels.rank() != 0) return;
    Manifest manifest;
    manifest.step = step;
    manifest.kind = "adapter";
    manifest.config_hash = config_hash;
    write_folder(folder, std::move(manifest), identity_json(adapter, base), group, flat);
  };
  channels.peers().rethrow_on_all_ranks("writing the adapter", failure_of(write));
}

void load_adapter(const fs::path& folder, const AdapterIdentity& adapter, ShardedModel& model) {
  const std::string base = fingerprint_text(model.base_fingerprint());
  if (!model.adapter_unit())
    refuse(folder, "adapter '" + adapter.plugin + "' adds no parameters to load; remove [adapter] weights");
  const Manifest manifest = verify_checkpoint(folder);
  const bool is_checkpoint = manifest.kind == "resume" && manifest.files.contains(adapter_identity_name);
  if (manifest.kind != "adapter" && !is_checkpoint)
    refuse(folder, "it contains a " + manifest.kind + "; specify the adapter folder of a run, or its checkpoint");
  check_identity(folder, adapter, base);
  const SafetensorsFolder files(is_checkpoint ? folder : folder / adapter_tensors_name);
  check_tensors(folder, files, *model.adapter_unit()->groups().front());
  model.fill([&](const ParameterSpec& spec, int64_t begin, int64_t count, float* out) {
    if (!model.adapter_unit()->holds(spec.name)) return false;
    files.find(spec.name)->read(begin, count, out);
    return true;
  });
}

}  // namespace wmtp
