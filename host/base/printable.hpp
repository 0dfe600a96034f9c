// Untrusted names in messages.
#pragma once

#include <string>
#include <string_view>

namespace wmtp {

/// In quotes, with control characters escaped, truncated to 120 bytes.
std::string printable(std::string_view name);

}  // namespace wmtp
