#include "base/strict_json.hpp"

#include <set>
#include <vector>

#include "base/error.hpp"
#include "base/printable.hpp"

namespace wmtp {

nlohmann::json parse_strict_json(std::string_view text, const std::string& where) {
  using json = nlohmann::json;
  constexpr int max_depth = 32;
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > max_depth) {
      throw Error(ExitStatus::data, where + ": nested more than " + std::to_string(max_depth) +
                                        " levels deep; the file was not written by this program");
    }
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      throw Error(ExitStatus::data,
                  where + ": key " + printable(value.get<std::string>()) + " occurs twice in one object; wanted once");
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), check);
  } catch (const json::parse_error& failure) {
    throw Error(ExitStatus::data, where + ": not JSON at byte " + std::to_string(failure.byte) +
                                      "; the file is damaged or something else");
  } catch (const json::exception&) {
    throw Error(ExitStatus::data, where + ": a number is out of range; the file is damaged or something else");
  }
}

}  // namespace wmtp
