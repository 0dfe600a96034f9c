#include "base/json_text.hpp"

#include "base/text.hpp"

namespace wmtp {

std::string json_text(const Json& value) {
  constexpr size_t most = 200;
  return truncate_text(value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace), most);
}

}  // namespace wmtp
