#include "plugins/torch/options_binder.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {
namespace {

[[noreturn]] void fail(const std::string& option, const std::string& reason) {
  throw Error(ExitStatus::plugin, "option '" + option + "': " + reason);
}

void require_choice(const std::string& option, const std::string& value, const std::vector<std::string>& choices) {
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return;
  fail(option, "its default '" + value + "' is not one of its choices");
}

}  // namespace

OptionSpec& OptionsRecorder::add(const char* name, const char* help, OptionSpec::Type type) {
  const std::string text = name != nullptr ? name : "";
  if (!is_plugin_name(text)) fail(text, "its name must have at most 32 lower case letters, digits and '_'");
  for (const char* own : {"plugin", "inner", "weights"})
    if (text == own) fail(text, "the name is reserved");
  if (help == nullptr || help[0] == '\0') fail(text, "it has no help text");
  for (const OptionSpec& spec : specs_)
    if (spec.name == text) fail(text, "declared twice");
  OptionSpec spec;
  spec.name = text;
  spec.help = help;
  spec.type = type;
  return specs_.emplace_back(std::move(spec));
}

void OptionsRecorder::number(const char* name, double& value, const char* help, double min, double max) {
  add_number(name, value, help, min, max, OptionSpec::Type::number);
}

void OptionsRecorder::scheduled(const char* name, Scheduled& value, const char* help, double min, double max) {
  if (value.from != value.to) fail(name, "its default changes over the run, wanted a number");
  add_number(name, value.to, help, min, max, OptionSpec::Type::scheduled);
}

void OptionsRecorder::add_number(const char* name, double value, const char* help, double min, double max,
                                 OptionSpec::Type type) {
  OptionSpec& spec = add(name, help, type);
  if (!std::isfinite(value) || std::isnan(min) || std::isnan(max) || value < min || value > max) {
    std::ostringstream text;
    text << "its default " << value << " is outside " << min << " to " << max;
    fail(name, text.str());
  }
  spec.default_value = value;
  if (std::isfinite(min)) spec.min = min;
  if (std::isfinite(max)) spec.max = max;
}

void OptionsRecorder::integer(const char* name, int64_t& value, const char* help, int64_t min, int64_t max) {
  OptionSpec& spec = add(name, help, OptionSpec::Type::integer);
  if (value < min || value > max) {
    fail(name,
         "its default " + std::to_string(value) + " is outside " + std::to_string(min) + " to " + std::to_string(max));
  }
  spec.default_value = value;
  if (min != std::numeric_limits<int64_t>::min()) spec.min = double(min);
  if (max != std::numeric_limits<int64_t>::max()) spec.max = double(max);
}

void OptionsRecorder::flag(const char* name, bool& value, const char* help) {
  add(name, help, OptionSpec::Type::flag).default_value = value;
}

void OptionsRecorder::text(const char* name, std::string& value, const char* help,
                           const std::vector<std::string>& choices) {
  OptionSpec& spec = add(name, help, OptionSpec::Type::text);
  require_choice(name, value, choices);
  spec.default_value = value;
  spec.choices = choices;
}

void OptionsRecorder::texts(const char* name, std::vector<std::string>& value, const char* help,
                            const std::vector<std::string>& choices) {
  OptionSpec& spec = add(name, help, OptionSpec::Type::texts);
  for (const std::string& one : value) require_choice(name, one, choices);
  spec.default_value = value;
  spec.choices = choices;
}

template <class T>
void OptionsBinder::take(const char* name, T& value) {
  const auto given = values_.find(name);
  if (given == values_.end()) return;
  const T* const right = std::get_if<T>(&given->second);
  if (right == nullptr) fail(name, "the value has the wrong type");
  value = *right;
  taken_.push_back(name);
}

void OptionsBinder::number(const char* name, double& value, const char*, double, double) { take(name, value); }
void OptionsBinder::scheduled(const char* name, Scheduled& value, const char*, double, double) {
  const auto given = values_.find(name);
  if (given != values_.end() && std::holds_alternative<Fields>(given->second)) {
    const std::map<std::string, double>& numbers = std::get<Fields>(given->second).numbers;
    value = {numbers.at("from"), numbers.at("to"), int64_t(numbers.at("steps"))};
    taken_.push_back(name);
    return;
  }
  double number = value.to;
  take(name, number);
  value = number;
}
void OptionsBinder::integer(const char* name, int64_t& value, const char*, int64_t, int64_t) { take(name, value); }
void OptionsBinder::flag(const char* name, bool& value, const char*) { take(name, value); }
void OptionsBinder::text(const char* name, std::string& value, const char*, const std::vector<std::string>&) {
  take(name, value);
}
void OptionsBinder::texts(const char* name, std::vector<std::string>& value, const char*,
                          const std::vector<std::string>&) {
  take(name, value);
}

void OptionsBinder::require_all_taken() const {
  for (const auto& [name, value] : values_)
    if (std::find(taken_.begin(), taken_.end(), name) == taken_.end()) fail(name, "the plugin has no such option");
}

}  // namespace wmtp
