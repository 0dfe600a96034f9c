// The two visitors passed to a plugin's `options()`: one records the declared options, one sets the experiment's
// values. [engine]
#pragma once

#include <string>
#include <vector>
#include <wmtp/plugin.hpp>

#include "experiment/plugin_description.hpp"
#include "plugins/torch/boundary.hpp"

namespace wmtp {

/// Records names, types, defaults, ranges, choices and help texts. Error(plugin) if the plugin's schema is invalid: a
/// bad or repeated name, a reserved key of the table (plugin, inner, weights), a default outside its range or choices,
/// NaN, a missing help text.
class OptionsRecorder final : public Options {
 public:
  const std::vector<OptionSpec>& specs() const { return specs_; }

  void number(const char* name, double& value, const char* help, double min, double max) override;
  void scheduled(const char* name, Scheduled& value, const char* help, double min, double max) override;
  void integer(const char* name, int64_t& value, const char* help, int64_t min, int64_t max) override;
  void flag(const char* name, bool& value, const char* help) override;
  void text(const char* name, std::string& value, const char* help, const std::vector<std::string>& choices) override;
  void texts(const char* name, std::vector<std::string>& value, const char* help,
             const std::vector<std::string>& choices) override;
  bool given(const char*) const override { return false; }

 private:
  OptionSpec& add(const char* name, const char* help, OptionSpec::Type type);
  void add_number(const char* name, double value, const char* help, double min, double max, OptionSpec::Type type);
  std::vector<OptionSpec> specs_;
};

/// Sets a plugin's variables from values that were already checked against the schema; options missing in `values` keep
/// their defaults. Error(plugin) for a value of the wrong type, or one that the plugin does not declare.
class OptionsBinder final : public Options {
 public:
  explicit OptionsBinder(const OptionValues& values) : values_(values) {}
  /// Call after `options()`: refuses values that the plugin did not declare.
  void require_all_taken() const;

  void number(const char* name, double& value, const char* help, double min, double max) override;
  void scheduled(const char* name, Scheduled& value, const char* help, double min, double max) override;
  void integer(const char* name, int64_t& value, const char* help, int64_t min, int64_t max) override;
  void flag(const char* name, bool& value, const char* help) override;
  void text(const char* name, std::string& value, const char* help, const std::vector<std::string>& choices) override;
  void texts(const char* name, std::vector<std::string>& value, const char* help,
             const std::vector<std::string>& choices) override;
  bool given(const char* name) const override { return values_.count(name) > 0; }

 private:
  template <class T>
  void take(const char* name, T& value);
  const OptionValues& values_;
  std::vector<std::string> taken_;
};

template <class Plugin>
void bind_options(const std::string& name, Plugin& plugin, const OptionValues& values) {
  OptionsBinder binder(values);
  guarded(name, "options", [&] {
    plugin.options(binder);
    binder.require_all_taken();
  });
}

}  // namespace wmtp
