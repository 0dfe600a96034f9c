#include "checkpoint/torch/training_state.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "checkpoint/safetensors/safetensors.hpp"
#include "checkpoint/verify.hpp"
#include "io/crash_points.hpp"

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

  /// Error(data) unless a tensor of this shape exists.
  void check(const std::string& tensor, const std::vector<int64_t>& shape) const {
    const std::vector<int64_t>& found = slices_of(tensor).front().range.slice->shape;
    if (found != shape)
      refuse(tensor, "its shape is " + c10::str(at::IntArrayRef(found)) + ", the model has " +
                         c10::str(at::IntArrayRef(shape)));
  }

  /// Reads elements [begin, begin + part.numel()) of a piece of a checked tensor.
  void read(const std::string& tensor, const ParameterPiece& piece, int64_t begin, const Tensor& part) const {
    for (const SliceLocation& location : slices_of(tensor)) {
      const Slice& slice = *location.range.slice;
      if (slice.columns == piece.columns()) {  // the same elements in the same order, in one range
        const int64_t first = piece.first_element() + begin;
        const int64_t from = std::max(first, slice.begin), to = std::min(first + part.numel(), slice.end);
        if (from < to) read_run(location, from - slice.begin, part.narrow(0, from - first, to - from));
        continue;
      }
      piece.for_each_run(begin, part.numel(), [&](int64_t first, int64_t offset, int64_t count) {
        slice.for_each_run_in(first, first + count, [&](int64_t from, int64_t in_entry, int64_t n) {
          read_run(location, in_entry, part.narrow(0, offset + from - first, n));
        });
      });
    }
  }

  at::ScalarType dtype(const std::string& tensor) const { return state_dtype(slices_of(tensor).front().range.dtype); }

 private:
  struct SliceLocation {
    SliceRange range;
    const SafetensorsFile* file;
  };
  /// Elements of the slice's entry from `begin` on.
  static void read_run(const SliceLocation& location, int64_t begin, const Tensor& part) {
    Tensor values = at::empty({part.numel()}, state_dtype(location.range.dtype));
    const TensorEntry& entry = *location.file->find(location.range.slice->entry);
    location.file->read(entry, values.element_size() * begin, values.mutable_data_ptr(), size_t(values.nbytes()));
    part.copy_(values);
  }
  const std::vector<SliceLocation>& slices_of(const std::string& tensor) const {
    const auto found = slices_.find(tensor);
    if (found == slices_.end()) refuse(tensor, "it is missing; the checkpoint belongs to another model or adapter");
    return found->second;
  }
  [[noreturn]] void refuse(const std::string& tensor, const std::string& why) const {
    throw Error(ExitStatus::data, folder_.string() + ": tensor '" + tensor + "': " + why);
  }
  std::filesystem::path folder_;
  std::map<std::string, SafetensorsFile> files_;
  std::map<std::string, std::vector<SliceLocation>> slices_;
};

/// Error(data) unless the checkpoint contains everything that the optimizer needs.
void check_complete(const SliceReader& reader, const SavedState& saved, ShardedOptimizer& optimizer,
                    const std::filesystem::path& folder) {
  for (const ShardedOptimizer::State& state : optimizer.states()) {
    for (const FlatParameter& placed : state.group->parameters())
      for (const char* prefix : optimizer.saved_prefixes(placed.spec))
        reader.check(prefix + placed.spec.name, placed.spec.shape);
    if (!saved.optimizer_steps.contains(state.group->unit()))
      throw Error(ExitStatus::data, folder.string() + ": state: optimizer_steps has no '" + state.group->unit() +
                                        "'; the checkpoint belongs to another model or adapter");
  }
}

/// Calls visit(tensor, placed, begin, part) for each part of a logical tensor in the block
/// (ParameterGroup::for_each_part).
template <class OnPart>
void for_each_part(const ShardedOptimizer::State& state, const StateBlock& block, OnPart on_part) {
  for (const auto& [prefix, flat] : block.flats())
    state.group->for_each_part(flat, block.end,
                               [&, &prefix = prefix](const FlatParameter& placed, int64_t begin, const Tensor& part) {
                                 on_part(prefix + placed.spec.name, placed, begin, part);
                               });
}

/// In the order of state_dtype_names.
constexpr std::array<at::ScalarType, state_dtype_names.size()> dtypes{
    at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kInt, at::kByte, at::kBool};

/// Writes in two parts, so that a test can end the process between them. One without values has been written.
void write_slice(SafetensorsWriter& writer, SavedSlice& saved_slice, bool half_a_file) {
  if (!saved_slice.values.defined()) {
    if (half_a_file) crash_here(CrashPoint::half_a_file);
    return;
  }
  const auto* bytes = static_cast<const char*>(saved_slice.values.const_data_ptr());
  const auto count = size_t(saved_slice.values.nbytes());
  const size_t half = count / 2;
  writer.write(saved_slice.slice.entry, 0, bytes, half);
  if (half_a_file) crash_here(CrashPoint::half_a_file);
  writer.write(saved_slice.slice.entry, int64_t(half), bytes + half, count - half);
  saved_slice.slice.crc32c = crc32c(bytes, count);
}

/// Writes the slices without values and computes their checksums. The others have been copied from memory.
void stream_state(SafetensorsWriter& writer, std::vector<SavedSlice>& saved_slices, ShardedOptimizer& optimizer) {
  std::map<std::string, Slice*> slices;
  for (SavedSlice& saved_slice : saved_slices)
    if (!saved_slice.values.defined()) slices[saved_slice.slice.tensor] = &saved_slice.slice;
  std::vector<ShardedOptimizer::State*> saved;
  for (ShardedOptimizer::State& state : optimizer.states())
    if (state.group->is_first_replica()) saved.push_back(&state);
  optimizer.for_each_block(saved, BlockAccess::read, [&](ShardedOptimizer::State& state, const StateBlock& block) {
    const auto write = [&](const std::string& tensor, const FlatParameter& placed, int64_t begin, const Tensor& part) {
      const auto found = slices.find(tensor);
      if (found == slices.end()) return;
      Slice& slice = *found->second;
      const int64_t in_slice = placed.piece.first_element() + begin - slice.begin;
      const void* const bytes = part.const_data_ptr();
      const auto count = size_t(part.nbytes());
      writer.write(slice.entry, part.element_size() * in_slice, bytes, count);
      slice.crc32c = crc32c(bytes, count, slice.crc32c);
    };
    for_each_part(state, block, write);
  });
}

}  // namespace

LoadedState load_training_state(const std::filesystem::path& folder, ShardedOptimizer& optimizer,
                                std::map<std::string, at::Tensor>& pipeline_state) {
  LoadedState loaded{read_manifest(folder), {}};
  const auto& [manifest, saved] = loaded;
  if (manifest.kind != ManifestKind::resume)
    throw Error(ExitStatus::data, folder.string() + ": found kind \"" + to_string(manifest.kind) +
                                      "\" in its manifest, wanted \"resume\": a checkpoint");
  loaded.state = saved_state(manifest, folder.string());
  const SliceReader reader(folder, manifest);
  check_complete(reader, saved, optimizer, folder);
  std::vector<ShardedOptimizer::State*> states;
  for (ShardedOptimizer::State& state : optimizer.states()) {
    state.steps = saved.optimizer_steps.at(state.group->unit());
    states.push_back(&state);
  }
  optimizer.for_each_block(
      states, BlockAccess::replace, [&](const ShardedOptimizer::State& state, const StateBlock& block) {
        const auto read = [&](const std::string& tensor, const FlatParameter& placed, int64_t begin,
                              const Tensor& part) { reader.read(tensor, placed.piece, begin, part); };
        for_each_part(state, block, read);
      });
  for (const auto& [name, shape] : saved.pipeline_state_shapes) {
    Tensor tensor = at::empty(shape, reader.dtype(pipeline_prefix + name));
    const ParameterPiece whole({tensor.numel()}, ParameterCut::none, 0, 1);
    reader.read(pipeline_prefix + name, whole, 0, tensor.view({-1}));
    pipeline_state[name] = tensor;
  }
  return loaded;
}

bool can_be_saved(at::ScalarType dtype) { return std::ranges::find(dtypes, dtype) != dtypes.end(); }

const char* state_dtype_name(at::ScalarType dtype) {
  return state_dtype_names.at(size_t(std::ranges::find(dtypes, dtype) - dtypes.begin()));
}

at::ScalarType state_dtype(const std::string& name) {
  for (size_t i = 0; i < dtypes.size(); ++i)
    if (name == state_dtype_names[i]) return dtypes[i];
  throw Error(ExitStatus::data, "checkpoint: dtype " + name + " is not a dtype of saved state");
}

std::vector<StateFlat> state_flats(ShardedOptimizer& optimizer) {
  std::vector<StateFlat> flats;
  for (ShardedOptimizer::State& state : optimizer.states()) {
    if (!state.group->is_first_replica()) continue;  // a replica; another rank writes it
    for (const auto& [prefix, flat] : state.whole().flats()) flats.push_back({prefix, state.group, flat.detach()});
    if (!optimizer.is_in_file()) continue;
    for (const char* prefix : optimizer.saved_prefixes(state.group->parameters().front().spec))
      if (prefix != parameter_prefix || state.group->is_in_file()) flats.push_back({prefix, state.group, {}});
  }
  return flats;
}

std::vector<SavedSlice> cut_into_slices(const std::vector<StateFlat>& flats,
                                        const std::map<std::string, Tensor>& pipeline_state, int rank) {
  std::vector<SavedSlice> saved_slices;
  const std::string file = rank_file_name(rank);
  const auto add = [&](const std::string& tensor, const FlatParameter& placed, int64_t begin, int64_t count,
                       const Tensor& values) {
    const ParameterPiece& piece = placed.piece;
    const int64_t first = piece.first_element() + begin;
    saved_slices.push_back(
        {{tensor, placed.spec.shape, first, first + count, file, tensor, 0, piece.columns()}, values});
  };
  for (const StateFlat& flat : flats) {
    const Tensor& values = flat.values;
    const int64_t end = flat.group->shard_size(), first = values.defined() ? end - values.numel() : 0;
    flat.group->for_each_range(first, end,
                               [&](const FlatParameter& placed, int64_t begin, int64_t offset, int64_t count) {
                                 add(flat.prefix + placed.spec.name, placed, begin, count,
                                     values.defined() ? values.narrow(0, offset, count).contiguous() : Tensor());
                               });
  }
  if (rank == 0)
    for (const auto& [name, tensor] : pipeline_state)
      saved_slices.push_back(
          {{pipeline_prefix + name, tensor.sizes().vec(), 0, tensor.numel(), file, pipeline_prefix + name},
           tensor.flatten().contiguous()});
  return saved_slices;
}

std::string write_rank_file(const std::filesystem::path& folder, std::vector<SavedSlice>& saved_slices, int rank,
                            const Json& optimizer_steps, ShardedOptimizer& optimizer,
                            const std::function<void()>& state_was_read) {
  const std::filesystem::path path = folder / rank_file_name(rank);
  std::vector<TensorEntry> entries;
  for (const SavedSlice& saved : saved_slices)
    entries.push_back({saved.slice.entry,
                       state_dtype_name(saved.values.defined() ? saved.values.scalar_type() : at::kFloat),
                       {saved.slice.end - saved.slice.begin}});
  SafetensorsWriter writer(path, std::move(entries), {});
  if (optimizer.is_in_file()) stream_state(writer, saved_slices, optimizer);
  state_was_read();
  std::vector<Slice> slices;
  for (size_t i = 0; i < saved_slices.size(); ++i) {
    write_slice(writer, saved_slices[i], i == saved_slices.size() / 2);
    slices.push_back(saved_slices[i].slice);
  }
  crash_here(CrashPoint::file_written);
  writer.finish();
  crash_here(CrashPoint::file_synced);
  const InputFile file(path);
  const uint32_t crc = crc32c_outside(file, slice_ranges(path, slices));
  return Json{{"slices", slices}, {"bytes", file.size()}, {"crc32c", crc}, {"optimizer_steps", optimizer_steps}}.dump();
}

void add_report(const std::string& report, int rank, const std::string& host, Manifest& manifest) {
  const Json parsed = Json::parse(report);
  for (const Json& slice : parsed["slices"]) manifest.slices.push_back(slice.get<Slice>());
  manifest.state["optimizer_steps"].update(parsed["optimizer_steps"]);  // a rank has those of its section
  if (host.empty()) return;
  const std::string name = rank_file_name(rank);
  manifest.files[name] = parsed["bytes"];
  manifest.sums[name] = parsed["crc32c"];
  manifest.hosts[name] = host;
}

}  // namespace wmtp
