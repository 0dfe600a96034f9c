// The keys of a small JSON file that another program wrote: read with their ranges, all mistakes told at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace wmtp {

class ForeignKeys {
 public:
  /// Error(data) when the file is missing, longer than 1 MiB, no JSON, or no object at its top.
  explicit ForeignKeys(const std::filesystem::path& file);
  ForeignKeys(nlohmann::json object, std::string where);

  /// Whether the key is there and not null.
  bool has(const char* key) const;
  const nlohmann::json& all() const { return object_; }
  const nlohmann::json& value(const char* key) const { return object_[key]; }

  // What does not fit is noted, and the smallest value that would is returned; `otherwise` stands for a missing key.
  int64_t integer(const char* key, int64_t from, int64_t to, std::optional<int64_t> otherwise = std::nullopt);
  double positive(const char* key, std::optional<double> otherwise = std::nullopt);
  bool flag(const char* key, bool otherwise);
  /// A key that may only say what this program does anyway: missing, null, or one of `allowed`.
  void only(const char* key, std::initializer_list<nlohmann::json> allowed);
  /// Notes "`key` is VALUE; wanted WANTED".
  void refuse(const std::string& key, const std::string& wanted);
  /// Error(data) with a line for each mistake; nothing when there are none. `advice` ends it.
  void finish(const std::string& advice) const;

 private:
  nlohmann::json object_;
  std::string where_;
  std::vector<std::string> mistakes_;
};

}  // namespace wmtp
