#include "checkpoint/training_state.hpp"

#include <array>
#include <optional>
#include <utility>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "checkpoint/durable_file.hpp"
#include "checkpoint/safetensors.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using nlohmann::json;

struct Piece {
  Slice slice;
  Tensor values;  ///< contiguous on the CPU: of a plugin in its own dtype, all else fp32
};

/// A plugin's counts and running sums are wider than fp32, and go on as if nothing had happened only in full.
constexpr std::array<std::pair<at::ScalarType, const char*>, 8> dtypes{{{at::kFloat, "F32"},
                                                                        {at::kDouble, "F64"},
                                                                        {at::kBFloat16, "BF16"},
                                                                        {at::kHalf, "F16"},
                                                                        {at::kLong, "I64"},
                                                                        {at::kInt, "I32"},
                                                                        {at::kByte, "U8"},
                                                                        {at::kBool, "BOOL"}}};

const char* dtype_name(const Tensor& tensor) {
  for (const auto& [type, name] : dtypes)
    if (type == tensor.scalar_type()) return name;
  throw Error(ExitStatus::storage,
              std::string("a plugin's state of dtype ") + c10::toString(tensor.scalar_type()) + " cannot be saved");
}

at::ScalarType dtype_of(const std::string& name) {
  for (const auto& [type, known] : dtypes)
    if (name == known) return type;
  throw Error(ExitStatus::data, "checkpoint: dtype " + name + " is not one that is saved");
}

std::string rank_file(int rank) {
  char name[40];
  std::snprintf(name, sizeof name, "rank-%04d.safetensors", rank);
  return name;
}

/// What this rank has to write: its part of every trained tensor and of its moments.
std::vector<Piece> pieces_of(ShardedOptimizer& optimizer, const std::map<std::string, Tensor>& tensors, int rank) {
  std::vector<Piece> pieces;
  const std::string file = rank_file(rank);
  const auto add = [&](const std::string& tensor, std::vector<int64_t> shape, int64_t begin, const Tensor& part) {
    const Tensor values = part.detach().to(at::kCPU).contiguous();
    pieces.push_back({{tensor, std::move(shape), begin, begin + values.numel(), file, tensor,
                       crc32c(values.const_data_ptr(), size_t(values.nbytes()))},
                      values});
  };
  for (ShardedOptimizer::State& state : optimizer.states()) {
    if (!state.group->counts_in_norm()) continue;  // another rank holds the same, and writes it
    const std::pair<const char*, const Tensor*> flats[] = {
        {"param/", &state.group->master()}, {"exp_avg/", &state.exp_avg}, {"exp_avg_sq/", &state.exp_avg_sq}};
    for (const auto& [prefix, flat] : flats)
      state.group->for_each_part(*flat, [&](const Placed& placed, int64_t begin, const Tensor& part) {
        add(prefix + placed.spec.name, placed.spec.shape, begin, part);
      });
  }
  if (rank == 0)
    for (const auto& [name, tensor] : tensors) add("pipeline/" + name, tensor.sizes().vec(), 0, tensor.flatten());
  return pieces;
}

json slice_json(const Slice& s) { return {s.tensor, s.shape, s.begin, s.end, s.file, s.entry, s.crc32c}; }

Slice slice_of(const json& j) { return {j[0], j[1].get<std::vector<int64_t>>(), j[2], j[3], j[4], j[5], j[6]}; }

/// Writes this rank's file; the slices, or the reason why not, as text for rank 0.
std::string write_rank_file(const std::filesystem::path& folder, const std::vector<Piece>& pieces, int rank) {
  try {
    std::vector<TensorEntry> entries;
    json slices = json::array();
    for (const Piece& piece : pieces) {
      entries.push_back({piece.slice.entry, dtype_name(piece.values), {piece.values.numel()}});
      slices.push_back(slice_json(piece.slice));
    }
    SafetensorsWriter writer(folder / rank_file(rank), std::move(entries), {});
    for (const Piece& piece : pieces)
      writer.write(piece.slice.entry, 0, piece.values.const_data_ptr(), size_t(piece.values.nbytes()));
    writer.finish();
    return json{{"slices", slices}}.dump();
  } catch (const std::exception& error) {
    return json{{"error", error.what()}}.dump();
  }
}

/// [rank 0] "" when the folder was published, else why not.
std::string publish_with_manifest(FolderDraft& draft, const SaveRequest& request, ShardedOptimizer& optimizer,
                                  const std::vector<std::string>& reports) {
  try {
    Manifest manifest;
    manifest.step = request.step;
    manifest.world_size = int64_t(reports.size());
    manifest.kind = "resume";
    manifest.config_hash = request.config_hash;
    manifest.plugins = request.plugins;
    manifest.state = request.state;
    for (const ShardedOptimizer::State& state : optimizer.states())
      manifest.state["optimizer_steps"][state.group->name()] = int64_t(state.steps.item<float>());
    for (const std::string& report : reports) {
      const json parsed = json::parse(report);
      if (parsed.contains("error")) return parsed["error"];
      for (const json& slice : parsed["slices"]) manifest.slices.push_back(slice_of(slice));
    }
    for (const auto& [name, tensor] : *request.tensors) manifest.state["pipeline_tensors"][name] = tensor.sizes().vec();
    write_manifest(draft.path(), manifest);
    draft.publish();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Copies elements [begin, begin + part.numel()) of a logical tensor into `part`, from whichever slices hold them.
class SliceReader {
 public:
  SliceReader(const std::filesystem::path& folder, const Manifest& manifest) : folder_(folder) {
    for (const Slice& slice : manifest.slices) slices_[slice.tensor].push_back(&slice);
    for (const auto& [name, bytes] : manifest.files)
      if (name.ends_with(".safetensors")) files_.emplace(name, folder / name);
  }

  void read(const std::string& tensor, const std::vector<int64_t>& shape, int64_t begin, const Tensor& part) const {
    const std::vector<const Slice*>& slices = slices_of(tensor);
    if (slices.front()->shape != shape)
      refuse(tensor, "its shape is " + c10::str(at::IntArrayRef(slices.front()->shape)) + ", the model has " +
                         c10::str(at::IntArrayRef(shape)));
    for (const Slice* slice : slices) {
      const int64_t from = std::max(begin, slice->begin), to = std::min(begin + part.numel(), slice->end);
      if (from >= to) continue;
      const SafetensorsFile& file = files_.at(slice->file);
      Tensor values = at::empty({to - from}, dtype(tensor));
      std::memcpy(values.mutable_data_ptr(),
                  file.bytes(*file.find(slice->entry)) + values.element_size() * (from - slice->begin),
                  size_t(values.nbytes()));
      part.narrow(0, from - begin, to - from).copy_(values);
    }
  }

  at::ScalarType dtype(const std::string& tensor) const {
    const Slice& slice = *slices_of(tensor).front();
    return dtype_of(files_.at(slice.file).find(slice.entry)->dtype);
  }

 private:
  const std::vector<const Slice*>& slices_of(const std::string& tensor) const {
    const auto found = slices_.find(tensor);
    if (found == slices_.end()) refuse(tensor, "it is missing; the checkpoint is of another model or adapter");
    return found->second;
  }
  [[noreturn]] void refuse(const std::string& tensor, const std::string& why) const {
    throw Error(ExitStatus::data, folder_.string() + ": tensor '" + tensor + "': " + why);
  }
  std::filesystem::path folder_;
  std::map<std::string, std::vector<const Slice*>> slices_;
  std::map<std::string, SafetensorsFile> files_;
};

}  // namespace

std::filesystem::path save_training_state(const SaveRequest& request, ShardedModel& model, ShardedOptimizer& optimizer,
                                          Channels& channels) {
  Peers& peers = channels.peers();
  const std::filesystem::path target = request.run_folder / checkpoint_name(request.step);
  std::optional<FolderDraft> draft;
  json opened;
  if (channels.rank() == 0) {
    try {
      draft.emplace(target);
      opened["path"] = draft->path().string();
    } catch (const std::exception& error) {
      opened["error"] = error.what();
    }
  }
  opened = json::parse(peers.publish("opening a checkpoint", opened.dump()));
  if (opened.contains("error")) throw Error(ExitStatus::storage, opened["error"]);

  const auto pieces = pieces_of(optimizer, *request.tensors, channels.rank());
  const std::string mine = write_rank_file(opened["path"].get<std::string>(), pieces, channels.rank());
  const auto reports = peers.collect("writing a checkpoint", mine);
  std::string outcome;
  if (channels.rank() == 0) outcome = publish_with_manifest(*draft, request, optimizer, reports);
  outcome = peers.publish("publishing a checkpoint", outcome);
  if (!outcome.empty()) throw Error(ExitStatus::storage, outcome);
  return target;
}

Manifest load_training_state(const std::filesystem::path& folder, ShardedModel& model, ShardedOptimizer& optimizer,
                             std::map<std::string, at::Tensor>& tensors) {
  Manifest manifest = read_manifest(folder);
  const SliceReader reader(folder, manifest);
  for (ShardedOptimizer::State& state : optimizer.states()) {
    const std::pair<const char*, Tensor*> flats[] = {
        {"param/", &state.group->master()}, {"exp_avg/", &state.exp_avg}, {"exp_avg_sq/", &state.exp_avg_sq}};
    for (const auto& [prefix, flat] : flats)
      state.group->for_each_part(*flat, [&](const Placed& placed, int64_t begin, const Tensor& part) {
        reader.read(prefix + placed.spec.name, placed.spec.shape, begin, part);
      });
    state.steps.fill_(double(manifest.state.at("optimizer_steps").at(state.group->name()).get<int64_t>()));
    state.group->master_changed();
  }
  const json names = manifest.state.value("pipeline_tensors", json::object());
  for (const auto& [name, shape] : names.items()) {
    const auto sizes = shape.get<std::vector<int64_t>>();
    Tensor tensor = at::empty(sizes, reader.dtype("pipeline/" + name));
    reader.read("pipeline/" + name, sizes, 0, tensor.view({-1}));
    tensors[name] = tensor;
  }
  return manifest;
}

}  // namespace wmtp
