// Parses JSON of untrusted files: refuses duplicate keys (nlohmann would keep the last) and deep nesting.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace wmtp {

/// Error(data) with `where` and the byte. The caller limits the length of the text.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where);

}  // namespace wmtp
