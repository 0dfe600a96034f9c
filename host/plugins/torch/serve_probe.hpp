// The child process of plugins/probe.hpp. A plugin's static objects and constructors may write to stdout, crash or
// hang: stdout is reserved for the one JSON value, and the parent's death or time limit ends this process.
#pragma once

#include <functional>
#include <string>

namespace wmtp {

/// Prints the JSON that `handler` returns for `request` (a file name or settings); returns the exit code. Never throws.
int serve_probe(const std::string& request, const std::function<std::string(const std::string&)>& handler);

}  // namespace wmtp
