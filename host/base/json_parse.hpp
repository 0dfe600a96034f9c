// Parsing of untrusted JSON by rules about its keys and its depth, in time proportional to its length. (nlohmann's own
// parse with a callback searches the whole parent after each value, and that of ordered_json the whole object for each
// key.)
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/json.hpp"

namespace wmtp {

/// `depth`: the number of lists and objects around the object of the key; 0 for the outermost.
struct JsonRules {
  size_t max_depth = 32;                   ///< lists and objects around a value
  std::function<void()> too_deep = [] {};  ///< throws, or the text may be nested without a limit
  /// False: the member is left out.
  std::function<bool(size_t depth, const std::string& key)> wants = [](size_t, const std::string&) { return true; };
  std::function<void()> inexact = [] {};  ///< throws, or an integer of more than 64 bits is rounded
  /// Throws, or the last value is kept.
  std::function<void(size_t depth, const std::string& key)> repeated_key = [](size_t, const std::string&) {};
  /// What takes the events of a member's value, which is then null; nullptr: the value is kept.
  std::function<nlohmann::json_sax<Json>*(size_t depth, const std::string& key)> reader;
};

/// Throws what the rules throw, Json::parse_error with the byte, and Json::out_of_range for a number. `AnyJson` is Json
/// or OrderedJson.
template <class AnyJson>
AnyJson parse_json(std::string_view text, const JsonRules& rules);

/// parse_strict_json of base/json.hpp with the `reader` of `rules`, whose other rules it sets.
Json parse_strict_json(std::string_view text, const std::string& where, JsonRules& rules);

}  // namespace wmtp
