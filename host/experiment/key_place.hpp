// Where an experiment states a key, for messages about values that are checked after the experiment is loaded.
#pragma once

#include <string>

#include "experiment/experiment.hpp"

namespace wmtp {

/// "base.toml:12" of a key's path, "train.steps"; the experiment's file if no line of a file states it.
std::string key_place(const Experiment& experiment, const std::string& path);

/// A message that begins with a key, "[adapter] train: ..." or "[[optimizer.groups]] match ...", after its place;
/// another one as it is.
std::string with_place(const std::string& message, const Experiment& experiment);

}  // namespace wmtp
