// Reads keys of a small JSON file from another program, checks their ranges, and reports all mistakes at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.hpp"

namespace wmtp {

inline constexpr int64_t max_external_json_bytes = 1 << 20;

class ExternalJson {
 public:
  /// Error(data) if the file is missing, longer than 1 MiB, not JSON, or not an object.
  explicit ExternalJson(const std::filesystem::path& file);
  ExternalJson(Json object, std::string where);

  /// Whether the key exists and is not null.
  bool has(const char* key) const;
  const Json& all() const { return object_; }
  const Json& value(const char* key) const { return object_[key]; }
  /// "is VALUE", shortened, or "is missing".
  std::string found(const std::string& key) const;

  // These record an invalid value as a mistake and return a valid one. For a missing key they return `fallback`.
  int64_t integer(const char* key, int64_t from, int64_t to, std::optional<int64_t> fallback = std::nullopt);
  double positive(const char* key, std::optional<double> fallback = std::nullopt);
  bool flag(const char* key, bool fallback);
  /// "" for anything but a string, which is a mistake if `wanted` describes the expected value.
  std::string text(const char* key, const char* wanted = nullptr);
  /// For a key that has only one supported behavior: it must be missing, null, or one of `allowed`.
  void only(const char* key, std::initializer_list<Json> allowed);
  /// For all other keys, which may state what is not supported: each must be one of `known`, or have a value that
  /// `is_off`. `wanted`: what to say of a key that is neither.
  void refuse_unknown(const std::set<std::string>& known, const std::function<bool(const Json& value)>& is_off,
                      const std::function<std::string(const std::string& key)>& wanted);
  /// Records the mistake "`key` is VALUE; wanted WANTED".
  void refuse(const std::string& key, const std::string& wanted);
  /// Error(data) that lists the mistakes and ends with `advice`, if there are any.
  void finish(const std::string& advice) const;

 private:
  Json object_;
  std::string where_;
  std::vector<std::string> mistakes_;
};

}  // namespace wmtp
