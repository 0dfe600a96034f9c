// What must hold for a text before toml++ may see it.
#pragma once

#include <string>

#include "core/toml/diagnostics.hpp"

namespace wmtp {

/// Valid UTF-8, no NUL, dotted keys and nesting of at most `max_depth`. Adds what is wrong and returns false.
bool within_limits(int source, const std::string& text, Diagnostics& diagnostics);

}  // namespace wmtp
