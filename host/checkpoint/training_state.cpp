#include "checkpoint/training_state.hpp"

#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/state_pieces.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using nlohmann::json;

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
    return state_dtype(files_.at(slice.file).find(slice.entry)->dtype);
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

Manifest load_training_state(const std::filesystem::path& folder, ShardedOptimizer& optimizer,
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
