// Strict parsing of untrusted JSON, and access to fields by name and type.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/enum_names.hpp"
#include "base/error.hpp"

namespace nlohmann {

// The library itself has this from 3.12 on: null when empty.
#if NLOHMANN_JSON_VERSION_MAJOR == 3 && NLOHMANN_JSON_VERSION_MINOR < 12
template <class T>
struct adl_serializer<std::optional<T>> {
  static void to_json(json& out, const std::optional<T>& value) { out = value ? json(*value) : json(); }
  static void from_json(const json& in, std::optional<T>& value) {
    value = in.is_null() ? std::nullopt : std::optional<T>(in.get<T>());
  }
};
#endif

/// Written as the value that it holds; read as the first of its types that is written as the same type of JSON.
template <class... Types>
struct adl_serializer<std::variant<Types...>> {
  template <class Json>
  static void to_json(Json& out, const std::variant<Types...>& value) {
    std::visit([&](const auto& held) { out = held; }, value);
  }
  static void from_json(const json& in, std::variant<Types...>& value) {
    const auto type = in.is_number_unsigned() ? json::value_t::number_integer : in.type();
    const bool is_read = ((json(Types()).type() == type && (value = in.get<Types>(), true)) || ...);
    if (!is_read) value = in.get<std::variant_alternative_t<0, std::variant<Types...>>>();  // throws
  }
};

}  // namespace nlohmann

namespace wmtp {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  ///< keeps the order of keys

// Enums with a table of names are written as the name. Reading throws std::exception for another.
template <NamedEnum Enum>
void to_json(Json& out, Enum value) {
  out = to_string(value);
}
template <NamedEnum Enum>
void from_json(const Json& in, Enum& value) {
  const auto found = from_name<Enum>(in.get_ref<const std::string&>());
  if (!found) throw std::invalid_argument("unknown name " + in.dump());
  value = *found;
}

/// Refuses duplicate keys (nlohmann would keep the last) and deep nesting: Error(data) with `where` and the byte.
/// The caller limits the length of the text.
Json parse_strict_json(std::string_view text, const std::string& where);

/// Reads an object: every key by name and type, and no unknown keys. Error(status) names the object, the key, the found
/// and the expected value.
class JsonFields {
 public:
  /// `where` begins every error message. The object must outlive this.
  JsonFields(const Json& object, std::string where, ExitStatus status = ExitStatus::data);

  bool has(const char* key) const { return object_.contains(key); }
  const Json& value(const std::string& key);
  int64_t integer(const std::string& key, int64_t maximum = std::numeric_limits<int64_t>::max());
  std::string text(const std::string& key);
  std::vector<int64_t> integers(const std::string& key);
  /// Finite numbers.
  std::vector<double> numbers(const std::string& key);
  const Json& array(const std::string& key);
  const Json& object(const std::string& key);
  /// Refuses keys that were not read.
  void finish() const;
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const Json& typed(const std::string& key, Json::value_t type, const char* wanted);
  int64_t integer(const Json& found, const std::string& key, int64_t maximum) const;
  [[noreturn]] void refuse(const std::string& key, const Json& found, const std::string& wanted) const;

  const Json& object_;
  std::string where_;
  ExitStatus status_;
  std::set<std::string> read_;
};

}  // namespace wmtp
