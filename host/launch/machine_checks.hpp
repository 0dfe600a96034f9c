// What a run needs, checked by trying it: cores and memory, engine, CUDA, plugins, run log, disk, sandbox.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace wmtp {

struct MachineCheck {
  std::string what;
  enum class State { good, warning, bad } state = State::good;
  std::string text = {};
  ExitStatus status = ExitStatus::done;  ///< of the error if the state is bad
};

std::vector<MachineCheck> check_machine(const std::vector<std::filesystem::path>& plugin_folders,
                                        const std::filesystem::path& database);

}  // namespace wmtp
