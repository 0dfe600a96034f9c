#include "engine/checkpoint/training_state.hpp"

#include <utility>

#include "base/error.hpp"
#include "core/checkpoints/manifest_sums.hpp"
#include "core/formats/safetensors/safetensors.hpp"
#include "engine/checkpoint/state_pieces.hpp"

namespace wmtp {
namespace {

using at::Tensor;

/// Reads elements of logical tensors from the slices that contain them. The constructor checks every slice against its
/// file, so that later reads cannot fail because of a wrong position or dtype.
class SliceReader {
 public:
  SliceReader(const std::filesystem::path& folder, const Manifest& manifest) : folder_(folder) {
    SliceDtypes dtypes(manifest.kind);
    for (const Slice& slice : manifest.slices) {
      const auto [opened, is_new] = files_.try_emplace(slice.file, folder / slice.file);
      if (!is_new) continue;
      const SafetensorsFile& file = opened->second;
      const std::vector<SliceRange> ranges = slice_ranges(file, manifest.slices);
      dtypes.check(file.path(), ranges);
      for (const SliceRange& range : ranges) slices_[range.slice->tensor].push_back({range, &file});
    }
  }

  /// Error(data) unless there is such a tensor of this shape.
  void check(const std::string& tensor, const std::vector<int64_t>& shape) const {
    const std::vector<int64_t>& found = slices_of(tensor).front().range.slice->shape;
    if (found != shape)
      refuse(tensor, "its shape is " + c10::str(at::IntArrayRef(found)) + ", the model has " +
                         c10::str(at::IntArrayRef(shape)));
  }

  /// Reads elements [begin, begin + part.numel()) of a tensor that was checked.
  void read(const std::string& tensor, int64_t begin, const Tensor& part) const {
    for (const auto& [range, file] : slices_of(tensor)) {
      const int64_t from = std::max(begin, range.slice->begin), to = std::min(begin + part.numel(), range.slice->end);
      if (from >= to) continue;
      Tensor values = at::empty({to - from}, state_dtype(range.dtype));
      const TensorEntry& entry = *file->find(range.slice->entry);
      file->read(entry, values.element_size() * (from - range.slice->begin), values.mutable_data_ptr(),
                 size_t(values.nbytes()));
      part.narrow(0, from - begin, to - from).copy_(values);
    }
  }

  at::ScalarType dtype(const std::string& tensor) const { return state_dtype(slices_of(tensor).front().range.dtype); }

 private:
  struct Place {
    SliceRange range;
    const SafetensorsFile* file;
  };
  const std::vector<Place>& slices_of(const std::string& tensor) const {
    const auto found = slices_.find(tensor);
    if (found == slices_.end()) refuse(tensor, "it is missing; the checkpoint belongs to another model or adapter");
    return found->second;
  }
  [[noreturn]] void refuse(const std::string& tensor, const std::string& why) const {
    throw Error(ExitStatus::data, folder_.string() + ": tensor '" + tensor + "': " + why);
  }
  std::filesystem::path folder_;
  std::map<std::string, SafetensorsFile> files_;
  std::map<std::string, std::vector<Place>> slices_;
};

/// Error(data) unless the checkpoint contains everything that the optimizer needs.
void check_complete(const SliceReader& reader, const SavedState& saved, ShardedOptimizer& optimizer,
                    const std::filesystem::path& folder) {
  for (const ShardedOptimizer::State& state : optimizer.states()) {
    for (const char* prefix : {parameter_prefix, average_prefix, square_prefix})
      for (const Placed& placed : state.group->parameters()) reader.check(prefix + placed.spec.name, placed.spec.shape);
    if (!saved.optimizer_steps.contains(state.group->name()))
      throw Error(ExitStatus::data, folder.string() + ": state: optimizer_steps has no '" + state.group->name() +
                                        "'; the checkpoint belongs to another model or adapter");
  }
}

}  // namespace

LoadedState load_training_state(const std::filesystem::path& folder, ShardedOptimizer& optimizer,
                                std::map<std::string, at::Tensor>& tensors) {
  LoadedState loaded{read_manifest(folder), {}};
  const auto& [manifest, saved] = loaded;
  if (manifest.kind != "resume")
    throw Error(ExitStatus::data,
                folder.string() + ": it contains a " + manifest.kind + ", not a checkpoint for resuming");
  loaded.state = saved_state(manifest, folder.string());
  const SliceReader reader(folder, manifest);
  check_complete(reader, saved, optimizer, folder);
  for (ShardedOptimizer::State& state : optimizer.states()) {
    const std::pair<const char*, Tensor*> flats[] = {{parameter_prefix, &state.group->master()},
                                                     {average_prefix, &state.exp_avg},
                                                     {square_prefix, &state.exp_avg_sq}};
    for (const auto& [prefix, flat] : flats)
      state.group->for_each_part(*flat, [&, &prefix = prefix](const Placed& placed, int64_t begin, const Tensor& part) {
        reader.read(prefix + placed.spec.name, begin, part);
      });
    state.steps.fill_(double(saved.optimizer_steps.at(state.group->name())));
    state.group->master_changed();
  }
  for (const auto& [name, shape] : saved.pipeline_tensors) {
    Tensor tensor = at::empty(shape, reader.dtype(pipeline_prefix + name));
    reader.read(pipeline_prefix + name, 0, tensor.view({-1}));
    tensors[name] = tensor;
  }
  return loaded;
}

}  // namespace wmtp
