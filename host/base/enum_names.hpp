// Names of enums: one table beside each enum, which experiments, JSON, the log and messages use.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace wmtp {

/// The names of an enum's values, in its order. Specialized beside the enum, for example:
///   template <>
///   inline constexpr auto names_of<Norm> = std::array{"l2", "l1", "inf"};
template <class Enum>
inline constexpr auto names_of = nullptr;

template <class Enum>
concept NamedEnum = std::is_enum_v<Enum> && !std::is_null_pointer_v<decltype(names_of<Enum>)>;

template <NamedEnum Enum>
constexpr const char* to_string(Enum value) {
  return names_of<Enum>[size_t(value)];
}

template <NamedEnum Enum>
constexpr std::optional<Enum> from_name(std::string_view name) {
  for (size_t i = 0; i < names_of<Enum>.size(); ++i)
    if (names_of<Enum>[i] == name) return Enum(i);
  return std::nullopt;
}

template <NamedEnum Enum>
std::vector<std::string> names(const std::vector<Enum>& values) {
  std::vector<std::string> all;
  for (const Enum value : values) all.emplace_back(to_string(value));
  return all;
}

template <NamedEnum Enum>
std::vector<std::string> all_names() {
  return {names_of<Enum>.begin(), names_of<Enum>.end()};
}

}  // namespace wmtp
