// Reads an object of an untrusted JSON document: every key by name and type, and no unknown keys. Error(status) names
// the object, the key, what was found and what was wanted.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace wmtp {

class JsonFields {
 public:
  /// `where` begins every error message. The object must outlive this.
  JsonFields(const nlohmann::json& object, std::string where, ExitStatus status = ExitStatus::data);

  bool has(const char* key) const { return object_.contains(key); }
  const nlohmann::json& value(const std::string& key);
  int64_t integer(const std::string& key, int64_t maximum = std::numeric_limits<int64_t>::max());
  std::string text(const std::string& key);
  std::vector<int64_t> integers(const std::string& key);
  /// Finite numbers.
  std::vector<double> numbers(const std::string& key);
  const nlohmann::json& array(const std::string& key);
  const nlohmann::json& object(const std::string& key);
  /// Refuses keys that were not read.
  void finish() const;
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const nlohmann::json& typed(const std::string& key, nlohmann::json::value_t type, const char* wanted);
  int64_t integer(const nlohmann::json& found, const std::string& key, int64_t maximum) const;
  [[noreturn]] void refuse(const std::string& key, const nlohmann::json& found, const std::string& wanted) const;

  const nlohmann::json& object_;
  std::string where_;
  ExitStatus status_;
  std::set<std::string> read_;
};

}  // namespace wmtp
