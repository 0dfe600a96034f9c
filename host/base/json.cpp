#include "base/json.hpp"

#include <cmath>

#include "base/error.hpp"
#include "base/json_parse.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"

namespace wmtp {

Json parse_strict_json(std::string_view text, const std::string& where) {
  JsonRules rules;
  return parse_strict_json(text, where, rules);
}

Json parse_strict_json(std::string_view text, const std::string& where, JsonRules& rules) {
  rules.too_deep = [&] {
    throw Error(ExitStatus::data, where + ": nested more than " + std::to_string(rules.max_depth) +
                                      " levels deep; the file was not written by this program");
  };
  rules.repeated_key = [&](size_t, const std::string& key) {
    throw Error(ExitStatus::data, where + ": key " + printable(key) + " occurs twice in one object; keep one of them");
  };
  try {
    return parse_json<Json>(text, rules);
  } catch (const Json::parse_error& failure) {
    throw Error(ExitStatus::data,
                where + ": invalid JSON at byte " + std::to_string(failure.byte) + "; the file is damaged or not JSON");
  } catch (const Json::exception&) {
    throw Error(ExitStatus::data,
                where + ": a number is out of range; the file is damaged, or was not written by this program");
  }
}

namespace {

/// Plain names unchanged, others escaped for a terminal.
std::string shown(const std::string& key) {
  constexpr auto* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
  return !key.empty() && key.find_first_not_of(plain) == std::string::npos ? key : printable(key);
}

}  // namespace

JsonFields::JsonFields(const Json& object, std::string where, ExitStatus status)
    : object_(object), where_(std::move(where)), status_(status) {
  if (!object_.is_object()) refuse("is " + std::string(object_.type_name()) + "; wanted an object");
}

const Json& JsonFields::value(const std::string& key) {
  const auto found = object_.find(key);
  if (found == object_.end()) refuse("has no " + shown(key));
  read_.insert(key);
  return *found;
}

int64_t JsonFields::integer(const std::string& key, int64_t maximum) { return integer(value(key), key, maximum); }

std::string JsonFields::text(const std::string& key) {
  return typed(key, Json::value_t::string, "a string").get<std::string>();
}

std::vector<int64_t> JsonFields::integers(const std::string& key) {
  std::vector<int64_t> numbers;
  for (const Json& item : array(key)) numbers.push_back(integer(item, key, std::numeric_limits<int64_t>::max()));
  return numbers;
}

std::vector<double> JsonFields::numbers(const std::string& key) {
  std::vector<double> numbers;
  for (const Json& item : array(key)) {
    if (!item.is_number() || !std::isfinite(item.get<double>())) refuse(key, item, "finite numbers");
    numbers.push_back(item.get<double>());
  }
  return numbers;
}

const Json& JsonFields::array(const std::string& key) { return typed(key, Json::value_t::array, "a list"); }

const Json& JsonFields::object(const std::string& key) { return typed(key, Json::value_t::object, "an object"); }

const Json& JsonFields::typed(const std::string& key, Json::value_t type, const char* wanted) {
  const Json& found = value(key);
  if (found.type() != type) refuse(shown(key) + " is " + found.type_name() + "; wanted " + wanted);
  return found;
}

void JsonFields::finish() const {
  for (const auto& [key, ignored] : object_.items())
    if (!read_.contains(key)) refuse("has the unknown key " + printable(key));
}

void JsonFields::refuse(const std::string& what) const {
  throw Error(status_, where_ + " " + what + "; the file is damaged, or was not written by this program");
}

int64_t JsonFields::integer(const Json& found, const std::string& key, int64_t maximum) const {
  // Documents built in memory contain signed integers, parsed ones unsigned integers.
  const bool whole = found.is_number_unsigned() || (found.is_number_integer() && found.get<int64_t>() >= 0);
  if (!whole || found.get<uint64_t>() > uint64_t(maximum))
    refuse(key, found, "an integer from 0 to " + std::to_string(maximum));
  return found.get<int64_t>();
}

void JsonFields::refuse(const std::string& key, const Json& found, const std::string& wanted) const {
  refuse(shown(key) + " is " + json_text(found) + "; wanted " + wanted);
}

}  // namespace wmtp
