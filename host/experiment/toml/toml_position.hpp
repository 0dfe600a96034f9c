// Converts byte offsets in TOML text to lines and columns.
#pragma once

#include <string>

#include "experiment/toml/toml_node.hpp"

namespace wmtp {

TomlPosition byte_position(int source, const std::string& text, size_t byte);

/// The place in `source` of byte `byte` of a decoded string whose TOML begins at `value`, for a plugin that reports an
/// error inside a text option. Accounts for quotes, escapes and line breaks of all four kinds of strings. The offset
/// after the last byte maps to the closing quote.
TomlPosition position_in_text(const std::string& source, TomlPosition value, size_t byte);

}  // namespace wmtp
