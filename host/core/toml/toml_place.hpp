// From a byte of a text's value to its place in the TOML that says it: for a plugin that finds a mistake inside an
// option.
#pragma once

#include <string>

#include "core/toml/toml_node.hpp"

namespace wmtp {

/// Where in `source` byte `byte` of a text stands whose TOML begins at `value`: quotes, escapes and line breaks of all
/// four kinds of strings are counted. The byte after the last one is the closing quote's place.
TomlPlace place_in_text(const std::string& source, TomlPlace value, size_t byte);

}  // namespace wmtp
