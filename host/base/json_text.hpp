// A value of somebody else's JSON in a message.
#pragma once

#include <string>

#include "base/json.hpp"

namespace wmtp {

/// Its JSON in ASCII; of more than 200 characters the first ones and an ellipsis.
std::string json_text(const Json& value);

}  // namespace wmtp
