// The templates by which a record becomes a prompt: in an experiment, in a model that was trained with one, and on the
// command line.
#pragma once

#include <string>
#include <vector>

namespace wmtp {

inline const std::vector<std::string>& prompt_templates() {
  static const std::vector<std::string> names{"alpaca", "plain", "none", "chat", "chatml"};
  return names;
}

/// Where a user names one, for messages.
enum class TemplateSetting { experiment, command_line };

inline std::string template_setting(TemplateSetting where, const std::string& name) {
  return where == TemplateSetting::experiment ? "data.template = \"" + name + "\"" : "--template " + name;
}

}  // namespace wmtp
