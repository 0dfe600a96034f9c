#include "huggingface/external_json.hpp"

#include <algorithm>
#include <cmath>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "io/input_file.hpp"

namespace wmtp {

ExternalJson::ExternalJson(const std::filesystem::path& file)
    : ExternalJson(parse_strict_json(read_small_file(file, max_external_json_bytes), file.string()), file.string()) {}

ExternalJson::ExternalJson(Json object, std::string where) : object_(std::move(object)), where_(std::move(where)) {
  if (!object_.is_object())
    throw Error(ExitStatus::data, where_ + ": it is " + object_.type_name() + "; wanted an object of keys");
}

bool ExternalJson::has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }

std::string ExternalJson::found(const std::string& key) const {
  return object_.contains(key) ? "is " + json_text(object_[key]) : "is missing";
}

void ExternalJson::refuse(const std::string& key, const std::string& wanted) {
  const std::string quoted = printable(key);  // an unknown key may contain anything
  mistakes_.push_back(quoted.substr(1, quoted.size() - 2) + " " + found(key) + "; wanted " + wanted);
}

int64_t ExternalJson::integer(const char* key, int64_t from, int64_t to, std::optional<int64_t> fallback) {
  if (!has(key) && fallback) return *fallback;
  if (has(key) && object_[key].is_number_unsigned()) {
    const uint64_t found = object_[key];
    if (found >= uint64_t(from) && found <= uint64_t(to)) return int64_t(found);
  }
  refuse(key, "an integer from " + std::to_string(from) + " to " + std::to_string(to));
  return from;
}

double ExternalJson::positive(const char* key, std::optional<double> fallback) {
  if (!has(key) && fallback) return *fallback;
  if (has(key) && object_[key].is_number()) {
    const double found = object_[key];
    if (std::isfinite(found) && found > 0) return found;
  }
  refuse(key, "a number above 0");
  return 1;
}

bool ExternalJson::flag(const char* key, bool fallback) {
  if (!has(key)) return fallback;
  if (object_[key].is_boolean()) return object_[key];
  refuse(key, "true or false");
  return fallback;
}

std::string ExternalJson::text(const char* key, const char* wanted) {
  if (has(key) && object_[key].is_string()) return object_[key];
  if (wanted) refuse(key, wanted);
  return "";
}

void ExternalJson::only(const char* key, std::initializer_list<Json> allowed) {
  if (!has(key) || std::find(allowed.begin(), allowed.end(), object_[key]) != allowed.end()) return;
  refuse(key, allowed.size() == 0 ? "null" : allowed.begin()->dump());
}

void ExternalJson::refuse_unknown(const std::set<std::string>& known,
                                  const std::function<bool(const Json& value)>& is_off,
                                  const std::function<std::string(const std::string& key)>& wanted) {
  for (const auto& [key, value] : object_.items())
    if (!known.contains(key) && !is_off(value)) refuse(key, wanted(key));
}

void ExternalJson::finish(const std::string& advice) const {
  if (mistakes_.empty()) return;
  std::string text = where_ + ": ";
  for (const std::string& mistake : mistakes_) text += (mistakes_.size() > 1 ? "\n  " : "") + mistake;
  throw Error(ExitStatus::data, text + (mistakes_.size() > 1 ? "\n" : "; ") + advice);
}

}  // namespace wmtp
