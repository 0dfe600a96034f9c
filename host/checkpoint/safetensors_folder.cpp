#include "checkpoint/safetensors_folder.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors/number_formats.hpp"
#include "checkpoint/verify.hpp"
#include "io/input_file.hpp"

namespace wmtp {

namespace fs = std::filesystem;

bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         std::none_of(name.begin(), name.end(), [](char c) { return c == '/' || uint8_t(c) < 0x20 || c == 0x7f; });
}

namespace {

constexpr int64_t piece = 64 << 10;  ///< elements

int64_t element_count(const TensorEntry& entry) { return (entry.end - entry.begin) / dtype_size(entry.dtype); }

bool is_finite(const SafetensorsFile& file, const TensorEntry& entry) {
  const int64_t size = dtype_size(entry.dtype), count = element_count(entry);
  std::vector<uint8_t> bytes(size_t(size * std::min(piece, count)));
  for (int64_t begin = 0; begin < count; begin += piece) {
    const int64_t some = std::min(piece, count - begin);
    file.read(entry, size * begin, bytes.data(), size_t(size * some));
    if (first_not_finite(entry.dtype, bytes.data(), some) < some) return false;
  }
  return true;
}

/// "[3,17]"
std::string position_text(int64_t element, const std::vector<int64_t>& shape) {
  std::vector<int64_t> position(shape.size());
  for (size_t i = shape.size(); i-- > 0; element /= shape[i]) position[i] = element % shape[i];
  return shape_text(position);
}

}  // namespace

void StoredTensor::check_finite(int64_t begin, const uint8_t* bytes, int64_t count) const {
  const int64_t bad = first_not_finite(entry->dtype, bytes, count);
  if (bad == count) return;
  float number = 0;
  to_float(entry->dtype, bytes + bad * dtype_size(entry->dtype), 1, &number);
  int64_t others = 0;
  for (const TensorEntry& other : file->entries())
    if (!shards && &other != entry && is_weight_dtype(other.dtype) && !is_finite(*file, other)) ++others;
  throw Error(ExitStatus::data,
              file->path().string() + ": tensor " + printable(entry->name) + " has " +
                  (std::isnan(number) ? "NaN" : "infinity") + " at " + position_text(begin + bad, entry->shape) +
                  (others > 0 ? ", and " + counted(others, "other tensor") + " of the file such numbers too" : "") +
                  ": the file is damaged, or the training that wrote it diverged; use another copy, or weights from "
                  "before that");
}

void StoredTensor::check_not_zero() const {
  constexpr int64_t first_look = 4 << 10;  // enough for nearly every tensor
  const int64_t size = entry->end - entry->begin;
  std::vector<uint8_t> bytes;
  for (int64_t begin = 0, some = 0; begin < size; begin += some) {
    some = std::min(begin == 0 ? first_look : piece, size - begin);
    bytes.resize(size_t(some));
    read_bytes(begin, bytes.data(), bytes.size());
    if (std::ranges::any_of(bytes, [](uint8_t byte) { return byte != 0; })) return;
  }
  if (size > 0)
    throw Error(ExitStatus::data, file->path().string() + ": tensor " + printable(entry->name) +
                                      " is zero everywhere, as after a copy that stopped: copy it again");
}

void StoredTensor::read(int64_t begin, int64_t count, float* out) const {
  const int64_t size = dtype_size(entry->dtype);
  std::vector<uint8_t> bytes(size_t(size * std::min(piece, count)));
  for (int64_t done = 0; done < count; done += piece) {
    const int64_t some = std::min(piece, count - done);
    read_bytes(size * (begin + done), bytes.data(), size_t(size * some));
    check_finite(begin + done, bytes.data(), some);
    to_float(entry->dtype, bytes.data(), some, out + done);
  }
}

void StoredTensor::read_bytes(int64_t offset, void* bytes, size_t count) const {
  if (!shards) return file->read(*entry, offset, bytes, count);
  const int64_t size = dtype_size(entry->dtype), end = offset + int64_t(count);
  const int64_t first = offset / size, last = (end + size - 1) / size;  // elements that the bytes touch
  for (const TensorShard& shard : *shards)
    shard.slice.for_each_run_in(first, last, [&](int64_t begin, int64_t in_entry, int64_t elements) {
      const int64_t from = std::max(offset, size * begin), to = std::min(end, size * (begin + elements));
      shard.file->read(*shard.entry, size * in_entry + (from - size * begin),
                       static_cast<char*>(bytes) + (from - offset), size_t(to - from));
    });
}

bool equal_bytes(const StoredTensor& one, const StoredTensor& other) {
  if (one.entry->shape != other.entry->shape || one.entry->dtype != other.entry->dtype) return false;
  std::vector<uint8_t> here(piece), there(piece);
  const int64_t bytes = one.entry->end - one.entry->begin;
  for (int64_t begin = 0; begin < bytes; begin += piece) {
    const auto some = size_t(std::min(piece, bytes - begin));
    one.read_bytes(begin, here.data(), some);
    other.read_bytes(begin, there.data(), some);
    if (std::memcmp(here.data(), there.data(), some) != 0) return false;
  }
  return true;
}

SafetensorsFolder::SafetensorsFolder(const fs::path& path) {
  std::error_code ignored;
  const fs::path index = path / safetensors_index_name;
  if (!fs::is_directory(path, ignored)) {
    open(path);
  } else if (fs::exists(index, ignored)) {
    open_by_index(index);
  } else if (is_training_checkpoint(path)) {
    open_checkpoint(path);
  } else {
    open_all(path);
  }
}

std::optional<StoredTensor> SafetensorsFolder::find(const std::string& name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> names;
  names.reserve(places_.size());
  for (const auto& [name, place] : places_) names.push_back(name);
  return names;
}

void SafetensorsFolder::open(const fs::path& path) {
  files_.push_back(std::make_unique<SafetensorsFile>(path));
  const SafetensorsFile& file = *files_.back();
  for (const TensorEntry& entry : file.entries()) {
    const auto [other, added] = places_.emplace(entry.name, StoredTensor{&file, &entry, nullptr});
    if (!added) {
      throw Error(ExitStatus::data, "tensor " + printable(entry.name) + " is in both " +
                                        other->second.file->path().string() + " and " + path.string() +
                                        "; specify one of the files instead of the folder");
    }
  }
}

void SafetensorsFolder::open_by_index(const fs::path& index) {
  constexpr int64_t limit = 16 << 20;
  const std::string where = index.string();
  const Json document = parse_strict_json(read_small_file(index, limit), where);
  const auto map = document.is_object() ? document.find("weight_map") : document.end();
  if (map == document.end() || !map->is_object()) {
    throw Error(ExitStatus::data, where + ": weight_map is missing; wanted {\"weight_map\": {tensor: file}}");
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !is_plain_file_name(file.get_ref<const std::string&>())) {
      throw Error(ExitStatus::data, where + ": the file of " + printable(tensor) + " is " + json_text(file) +
                                        "; wanted the name of a file in the folder of the index");
    }
    names.insert(file.get<std::string>());
  }
  for (const std::string& name : names) open(index.parent_path() / name);
  for (const auto& [tensor, file] : map->items()) {
    const auto place = find(tensor);
    if (!place || place->file->path().filename() != file.get<std::string>()) {
      throw Error(ExitStatus::data, where + ": tensor " + printable(tensor) + " is not in " +
                                        printable(file.get<std::string>()) +
                                        ", which the index names for it; download the folder again");
    }
  }
}

/// The manifest's slices cover each tensor; its check has made sure of that.
void SafetensorsFolder::open_checkpoint(const fs::path& folder) {
  const Manifest manifest = read_manifest(folder);
  SliceDtypes dtypes(manifest.kind);
  const std::string_view prefix = parameter_prefix;
  for (const auto& [name, bytes] : manifest.files) {
    if (fs::path(name).extension() != ".safetensors") continue;
    if (const auto host = manifest.hosts.find(name); host != manifest.hosts.end() && !is_there(folder / name))
      throw Error(ExitStatus::data, (folder / name).string() + " is missing: the host " + printable(host->second) +
                                        " keeps it; copy the files of all hosts into one folder");
    files_.push_back(std::make_unique<SafetensorsFile>(folder / name));
    const SafetensorsFile& file = *files_.back();
    const std::vector<SliceRange> ranges = slice_ranges(file, manifest.slices);
    dtypes.check(file.path(), ranges);
    for (const SliceRange& range : ranges) {
      const Slice& slice = *range.slice;
      if (!slice.tensor.starts_with(prefix)) continue;
      shards_[slice.tensor.substr(prefix.size())].push_back({&file, file.find(slice.entry), slice});
      const auto [place, is_new] = places_.try_emplace(slice.tensor.substr(prefix.size()));
      if (is_new) whole_.push_back({place->first, range.dtype, slice.shape, 0, 0});
      if (is_new) place->second = {&file, &whole_.back(), nullptr};
    }
  }
  for (TensorEntry& entry : whole_) {
    StoredTensor& place = places_.at(entry.name);
    place.shards = &shards_.at(entry.name);
    entry.end = dtype_size(entry.dtype) *
                std::accumulate(entry.shape.begin(), entry.shape.end(), int64_t{1}, std::multiplies<>());
  }
}

void SafetensorsFolder::open_all(const fs::path& folder) {
  std::vector<fs::path> files, pickles;
  for (const fs::path& path : paths_in(folder)) {
    const std::string extension = path.extension();
    if (extension == ".safetensors") files.push_back(path);
    if (extension == ".bin" || extension == ".pt" || extension == ".pth") pickles.push_back(path);
  }
  std::sort(files.begin(), files.end());
  std::sort(pickles.begin(), pickles.end());
  if (files.empty() && !pickles.empty()) open(pickles.front());  // its error explains how to convert it
  if (files.empty() && pickles.empty()) {
    throw Error(ExitStatus::data,
                folder.string() + " contains no *.safetensors file; specify the folder or file of weights");
  }
  for (const fs::path& file : files) open(file);
}

bool is_training_checkpoint(const fs::path& folder) {
  return is_there(folder / manifest_file_name) && is_there(folder / rank_file_name(0));
}

}  // namespace wmtp
