// `plan FILE` of a file with [study].
#pragma once

#include <string>

#include "cli/command.hpp"

namespace wmtp {

/// Prints what a study takes and can show, and stores it in the log, unless runs of the study have begun already.
int plan_study(const std::string& file, bool json, const GlobalOptions& globals);

}  // namespace wmtp
