// Weights that may be one file or a folder of several: as Hugging Face writes them, with model.safetensors.index.json,
// or plain *.safetensors files, whose names must not repeat.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/safetensors/safetensors.hpp"

namespace wmtp {

/// A tensor and the file that holds it; valid while its SafetensorsFolder lives.
struct TensorPlace {
  const SafetensorsFile* file = nullptr;
  const TensorEntry* entry = nullptr;
  const uint8_t* bytes() const { return file->bytes(*entry); }
};

class SafetensorsFolder {
 public:
  /// A file, or a folder. Error(data) when there is nothing to read, when the index names a tensor or a file that is
  /// not there, or when two files hold the same name.
  explicit SafetensorsFolder(const std::filesystem::path& path);
  std::optional<TensorPlace> find(const std::string& name) const;
  std::vector<std::string> names() const;  ///< in alphabetical order
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }

 private:
  void open(const std::filesystem::path& file);
  void open_by_index(const std::filesystem::path& index);
  void open_all(const std::filesystem::path& folder);

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, TensorPlace> places_;
};

/// Names of files inside checkpoints and indexes: no folder part, nothing hidden.
bool is_plain_file_name(const std::string& name);

}  // namespace wmtp
