// Converts byte offsets in TOML text to lines and columns.
#pragma once

#include <string>

#include "experiment/toml/toml_node.hpp"

namespace wmtp {

TomlPlace place_of_byte(int source, const std::string& text, size_t byte);

/// The place in `source` of byte `byte` of a decoded string whose TOML begins at `value`, for a plugin that reports an
/// error inside a text option. Accounts for quotes, escapes and line breaks of all four kinds of strings. The offset
/// after the last byte maps to the closing quote.
TomlPlace place_in_text(const std::string& source, TomlPlace value, size_t byte);

}  // namespace wmtp
