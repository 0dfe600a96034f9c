// JSON as text: somebody else's value in a message, and what this program writes.
#pragma once

#include <string>

#include "base/json.hpp"

namespace wmtp {

/// Its JSON in ASCII; of more than 200 characters the first ones and an ellipsis.
std::string json_text(const Json& value);

/// In one line, or with this indent. Bytes that are not UTF-8, as in paths, become U+FFFD.
template <class AnyJson>
std::string dumped(const AnyJson& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, AnyJson::error_handler_t::replace);
}

}  // namespace wmtp
