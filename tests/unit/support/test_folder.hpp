// A temporary folder of one test, whole files in one call, and small checkpoints to damage.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/safetensors/safetensors.hpp"
#include "checkpoint/verify.hpp"
#include "io/durable_file.hpp"
#include "support/refusal.hpp"

namespace wmtp::test {

namespace fs = std::filesystem;

/// For tests with hundreds of saves, each of which would wait for the disk at fsync.
inline fs::path memory_folder() {
  return ::access("/dev/shm", W_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path();
}

class TestFolder {
 public:
  explicit TestFolder(const fs::path& parent = fs::temp_directory_path()) {
    std::string name = (parent / "wmtp-checkpoint-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~TestFolder() {
    set_file_hook({});
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline void put(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

inline std::string get(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::string with_length(const std::string& header) {
  uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header;
}

inline std::vector<float> values_of(int64_t step, int64_t count, int64_t offset = 0) {
  std::vector<float> values((size_t(count)));
  for (int64_t i = 0; i < count; ++i) values[size_t(i)] = float(step * 1000 + offset + i);
  return values;
}

/// All elements of a tensor, which has this type.
template <class T>
std::vector<T> read_all(const SafetensorsFile& file, const std::string& tensor) {
  const TensorEntry* entry = file.find(tensor);
  if (!entry) throw std::runtime_error("no tensor " + tensor);
  std::vector<T> values(size_t(entry->end - entry->begin) / sizeof(T));
  file.read(*entry, 0, values.data(), values.size() * sizeof(T));
  return values;
}

/// `state` of a checkpoint for resuming, before the optimizer's steps are known.
inline Json sound_state() {
  return {{"tokens", 5},
          {"drawn", 12},
          {"guard_window", {2.5, 2.25}},
          {"skipped_in_a_row", 0},
          {"optimizer_steps", Json::object()}};
}

/// Two ranks' shards of two tensors (embedding [6, 4], norm [5]) and a file without tensors.
inline void fill_checkpoint(const fs::path& folder, int64_t step) {
  Manifest manifest;
  manifest.step = step;
  manifest.world_size = 2;
  manifest.kind = ManifestKind::resume;
  manifest.config_hash = "5e1f";
  manifest.plugins = {{"pipeline rho1", "ab12"}};
  manifest.state = sound_state();
  for (int rank = 0; rank < 2; ++rank) {
    const std::string name = "rank-000" + std::to_string(rank) + ".safetensors";
    const int64_t norm = rank == 0 ? 3 : 2;
    SafetensorsWriter writer(folder / name, {{"embedding", "F32", {12}}, {"norm", "F32", {norm}}}, {{"format", "pt"}});
    const auto add = [&](const std::string& tensor, std::vector<int64_t> shape, int64_t begin, int64_t count) {
      const std::vector<float> values = values_of(step, count, begin);
      const size_t bytes = values.size() * sizeof(float);
      writer.write(tensor, 0, values.data(), bytes);
      manifest.slices.push_back(
          {"param/" + tensor, std::move(shape), begin, begin + count, name, tensor, crc32c(values.data(), bytes)});
    };
    add("embedding", {6, 4}, rank * 12, 12);
    add("norm", {5}, rank * 3, norm);
    writer.finish();
  }
  DurableFile blob(folder / "plugin-state.bin");
  blob.write("state of the plugin");
  blob.finish();
  write_manifest(folder, manifest);
}

inline fs::path save_checkpoint(const fs::path& run_folder, int64_t step) {
  const fs::path target = run_folder / checkpoint_name(step);
  FolderDraft draft(target);
  fill_checkpoint(draft.path(), step);
  draft.publish();
  return target;
}

inline void flip_bit(const fs::path& path, size_t bit) {
  std::string text = get(path);
  text.at(bit / 8) = char(text[bit / 8] ^ (1 << (bit % 8)));
  put(path, text);
}

}  // namespace wmtp::test
