// Whether bytes are UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <string_view>

namespace wmtp {

/// Length of the longest beginning of `bytes` that is UTF-8 and ends with a character; bytes.size() when all of it is.
size_t valid_utf8(std::string_view bytes);

}  // namespace wmtp
