// What a plugin is made with: the options that the experiment gives. It keeps its own defaults for the others, and can
// tell the two apart.
#pragma once

#include "core/experiment/experiment.hpp"

namespace wmtp {

inline OptionValues given_options(const PluginChoice& choice) {
  OptionValues given;
  for (const std::string& name : choice.given) given[name] = choice.options.at(name);
  return given;
}

}  // namespace wmtp
