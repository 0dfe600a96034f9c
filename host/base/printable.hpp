// Names from outside in messages.
#pragma once

#include <string>
#include <string_view>

namespace wmtp {

/// A name out of a file that is not trusted, in quotes, fit for a terminal: control characters escaped, cut at 120.
std::string printable(std::string_view name);

}  // namespace wmtp
