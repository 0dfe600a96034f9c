// Environment variables. An empty one counts as unset everywhere: `NAME= command` and `export NAME=` are how scripts
// switch a variable off.
#pragma once

#include <string>
#include <string_view>

namespace wmtp {

/// "" if the variable is unset or empty.
std::string environment_value(const char* name);

/// Without the white space at both ends, which the C library's readers of numbers accept, too.
std::string_view without_outer_space(std::string_view text);

}  // namespace wmtp
