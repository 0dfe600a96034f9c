#include "checkpoint/model_files.hpp"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors_folder.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using nlohmann::json;
constexpr const char* file_name = "model.safetensors";
constexpr const char* tokenizer_name = "tokenizer.model";  // Meta's name

json params_json(const ShardedModel& model, const ModelTokenizer& tokenizer) {
  const ModelConfig& m = model.config();
  json params{{"dim", m.dim},
              {"n_layers", m.layers},
              {"n_heads", m.heads},
              {"n_kv_heads", m.kv_heads},
              {"n_future_tokens", m.future_tokens},
              {"rope_theta", m.rope_theta},
              {"norm_eps", m.norm_eps},
              {"vocab_size", m.vocab_size},
              {"ffn_dim", m.ffn_dim},
              {"max_seq_len", m.max_sequence_length}};
  if (!tokenizer.kind.empty()) params["tokenizer"] = tokenizer.kind;
  for (const ValueHeadModule& module : model.value_heads())
    params["value_heads"].push_back({{"name", module.name()}, {"kind", module.head().kind}});
  return params;
}

void write_new(const std::filesystem::path& path, const std::string& bytes) {
  DurableFile file(path);
  file.write(bytes.data(), bytes.size());
  file.finish();
}

std::string whole_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) throw Error(ExitStatus::data, "cannot read " + path.string());
  return bytes;
}

/// params.json of a folder; an empty object where there is none.
json params_of(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "params.json";
  if (!std::filesystem::exists(file)) return json::object();
  try {
    return json::parse(whole_file(file));
  } catch (const json::exception& error) {
    throw Error(ExitStatus::data, file.string() + ": " + error.what());
  }
}

/// Gathers a group whole, and gives one parameter after another in fp32 on the CPU.
class WholeGroup {
 public:
  explicit WholeGroup(ParameterGroup& group) : group_(group), flat_(group.gather_master()) {}
  Tensor parameter(const Placed& placed) const {
    return flat_.narrow(0, placed.offset, placed.count).to(at::kCPU, at::kFloat).view(placed.spec.shape);
  }
  std::optional<Tensor> find(const std::string& name) const {
    for (const Placed& placed : group_.parameters())
      if (placed.spec.name == name) return parameter(placed);
    return std::nullopt;
  }

 private:
  ParameterGroup& group_;
  Tensor flat_;
};

std::map<std::string, Slot> slots_of(const ShardedModel& model) {
  std::map<std::string, Slot> slots;
  const auto add = [&](const std::string& block) {
    for (Slot& slot : block_slots(model.config(), block)) slots.emplace(slot.name + ".weight", slot);
  };
  for (int64_t i = 0; i < model.num_trunk_blocks(); ++i) add(trunk_block_name(i));
  for (int64_t k = 1; k <= model.num_heads(); ++k) add(head_block_name(model.config(), k));
  return slots;
}

Tensor merged(const Adapter& adapter, const Slot& slot, Tensor weight, const WholeGroup& parameters) {
  std::vector<Tensor> params;
  for (const Param& param : adapter.declare(slot)) params.push_back(*parameters.find(slot.name + "." + param.name));
  return params.empty() ? weight : adapter.merged(slot, weight, params).to(at::kFloat).contiguous();
}

/// Entries of model.safetensors: everything but what adapters put beside the slots.
std::vector<TensorEntry> entries_of(const ShardedModel& model) {
  std::vector<TensorEntry> entries;
  for (const auto& unit : model.units())
    if (unit.get() != model.adapter_unit())
      for (const auto& group : unit->groups())
        for (const Placed& placed : group->parameters())
          entries.push_back({placed.spec.name, "F32", placed.spec.shape});
  return entries;
}

float from_bf16(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

void copy_as_float(const TensorPlace& place, int64_t begin, int64_t count, float* out) {
  const std::string& dtype = place.entry->dtype;
  if (dtype == "F32") {
    std::memcpy(out, place.bytes() + 4 * begin, size_t(4 * count));
  } else if (dtype == "BF16") {
    for (int64_t i = 0; i < count; ++i) {
      uint16_t bits;
      std::memcpy(&bits, place.bytes() + 2 * (begin + i), sizeof bits);
      out[i] = from_bf16(bits);
    }
  } else {
    throw Error(ExitStatus::data, place.file->path().string() + ": tensor '" + place.entry->name + "': dtype " + dtype +
                                      "; weights are read as F32 or BF16");
  }
}

/// Whether a tensor is of a head that this model does without: a reference has one head, a value model none.
bool is_of_another_head(const ShardedModel& model, const std::string& name) {
  if (name.starts_with("value_heads.")) return true;
  if (name.starts_with("extra_heads.")) return model.num_heads() <= 1;
  return model.num_heads() == 0 &&
         (name == "output.weight" || name.starts_with(head_block_name(model.config(), 1) + "."));
}

}  // namespace

int64_t save_model(const std::filesystem::path& folder, int64_t step, const std::string& config_hash,
                   ShardedModel& model, const Adapter* adapter, const ModelTokenizer& tokenizer, Channels& channels) {
  const bool writes = channels.rank() == 0;
  std::optional<FolderDraft> draft;
  std::optional<SafetensorsWriter> writer;
  Manifest manifest;
  std::string failure;
  const auto attempt = [&](auto&& work) {  // rank 0 fails alone, and tells the others at the end
    if (!writes || !failure.empty()) return;
    try {
      work();
    } catch (const std::exception& error) {
      failure = error.what();
    }
  };
  attempt([&] {
    draft.emplace(folder);
    writer.emplace(draft->path() / file_name, entries_of(model), std::map<std::string, std::string>{{"format", "pt"}});
  });

  std::optional<WholeGroup> adapter_parameters;
  if (ShardUnit* unit = model.adapter_unit()) adapter_parameters.emplace(*unit->groups().front());
  const auto slots = slots_of(model);
  for (const auto& unit : model.units()) {
    if (unit.get() == model.adapter_unit()) continue;
    for (const auto& group : unit->groups()) {
      const WholeGroup whole(*group);
      attempt([&] {
        for (const Placed& placed : group->parameters()) {
          Tensor value = whole.parameter(placed);
          const auto slot = slots.find(placed.spec.name);
          if (adapter && adapter_parameters && slot != slots.end())
            value = merged(*adapter, slot->second, value, *adapter_parameters);
          writer->write(placed.spec.name, 0, value.const_data_ptr(), size_t(value.nbytes()));
          manifest.slices.push_back({"param/" + placed.spec.name, placed.spec.shape, 0, placed.count, file_name,
                                     placed.spec.name, crc32c(value.const_data_ptr(), size_t(value.nbytes()))});
        }
      });
    }
  }
  attempt([&] {
    writer->finish();
    write_new(draft->path() / "params.json", params_json(model, tokenizer).dump(2) + "\n");
    if (tokenizer.kind == "bpe") write_new(draft->path() / tokenizer_name, whole_file(tokenizer.file));
    manifest.step = step;
    manifest.kind = "model";
    manifest.config_hash = config_hash;
    manifest.state = json::object();
    write_manifest(draft->path(), manifest);
    draft->publish();
  });
  failure = channels.peers().publish("writing the model", failure);
  if (!failure.empty()) throw Error(ExitStatus::storage, failure);
  return writes ? writer->file_size() : 0;
}

void load_model(const std::filesystem::path& weights, ShardedModel& model) {
  const SafetensorsFolder files(weights);
  const ShardUnit* adapter = model.adapter_unit();
  std::set<std::string> known;
  model.fill([&](const ParameterSpec& spec, int64_t begin, int64_t count, float* out) {
    const auto place = files.find(spec.name);
    if (!place) {
      const bool has_own_start =
          spec.name.starts_with("value_heads.") ? spec.trains : adapter && adapter->holds(spec.name);
      if (has_own_start) return false;
      const bool of_critic = !value_heads_of(weights).empty() && model.num_heads() > 0;
      throw Error(ExitStatus::data,
                  weights.string() + ": tensor '" + spec.name + "' is missing; the model needs " +
                      c10::str(at::IntArrayRef(spec.shape)) +
                      (of_critic ? "; a critic's model predicts no tokens: it goes into [value]" : ""));
    }
    if (place->entry->shape != spec.shape)
      throw Error(ExitStatus::data, place->file->path().string() + ": tensor '" + spec.name + "' has shape " +
                                        c10::str(at::IntArrayRef(place->entry->shape)) + ", the model has " +
                                        c10::str(at::IntArrayRef(spec.shape)));
    copy_as_float(*place, begin, count, out);
    return true;
  });
  for (const auto& unit : model.units())
    for (const auto& group : unit->groups())
      for (const Placed& placed : group->parameters()) known.insert(placed.spec.name);
  for (const std::string& name : files.names())
    if (known.count(name) == 0 && !is_of_another_head(model, name))
      throw Error(ExitStatus::data, weights.string() + ": tensor '" + name +
                                        "' has no place in the model; check layers and future_tokens");
}

std::vector<ValueHead> value_heads_of(const std::filesystem::path& folder) {
  const json params = params_of(folder);
  try {
    std::vector<ValueHead> heads;
    for (const json& head : params.value("value_heads", json::array()))
      heads.push_back({head.at("name"), head.at("kind")});
    return heads;
  } catch (const json::exception& error) {
    throw Error(ExitStatus::data, (folder / "params.json").string() + ": " + error.what());
  }
}

ModelTokenizer tokenizer_of(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "params.json", pieces = folder / tokenizer_name;
  const json params = params_of(folder), found = params.is_object() ? params.value("tokenizer", json()) : json();
  if (found.is_null() || found == "byte") return {found.is_null() ? "" : "byte", {}};
  if (found != "bpe")
    throw Error(ExitStatus::data, file.string() + ": tokenizer is " + found.dump() + ", wanted \"byte\" or \"bpe\"");
  if (!std::filesystem::exists(pieces))
    throw Error(ExitStatus::data,
                file.string() + ": its tokenizer \"bpe\" wants " + pieces.string() + ", which is missing");
  return {"bpe", pieces};
}

ModelConfig model_config_of(const std::filesystem::path& folder, const ModelConfig& like) {
  const std::filesystem::path file = folder / "params.json";
  if (!std::filesystem::exists(file)) return like;
  const json params = params_of(folder);
  try {
    ModelConfig config = like;
    config.dim = params.at("dim");
    config.layers = params.at("n_layers");
    config.heads = params.at("n_heads");
    config.kv_heads = params.contains("n_kv_heads") && !params["n_kv_heads"].is_null()
                          ? params["n_kv_heads"].get<int64_t>()
                          : config.heads;
    config.future_tokens = params.value("n_future_tokens", int64_t{1});
    config.rope_theta = params.value("rope_theta", 10000.0);
    config.norm_eps = params.value("norm_eps", 1e-5);
    config.max_sequence_length = params.value("max_seq_len", like.max_sequence_length);
    const SafetensorsFolder files(folder);
    if (const auto embedding = files.find("tok_embeddings.weight")) config.vocab_size = embedding->entry->shape.at(0);
    if (const auto w1 = files.find("layers.0.feed_forward.w1.weight")) config.ffn_dim = w1->entry->shape.at(0);
    return config;
  } catch (const json::exception& error) {
    throw Error(ExitStatus::data, file.string() + ": " + error.what());
  }
}

}  // namespace wmtp
