#include "base/environment.hpp"

#include <cstdlib>

namespace wmtp {

std::string environment_value(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string_view without_outer_space(std::string_view text) {
  constexpr std::string_view space = " \t\n\r\f\v";
  const size_t begin = text.find_first_not_of(space);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(space) + 1 - begin);
}

}  // namespace wmtp
