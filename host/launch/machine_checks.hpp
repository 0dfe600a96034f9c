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

/// Whether the first CUDA device computes what the CPU does, and how fast; some seconds. Error(usage) without one.
std::vector<MachineCheck> check_cuda_device();

std::vector<MachineCheck> check_machine(const std::vector<std::filesystem::path>& plugin_folders,
                                        const std::filesystem::path& database);

}  // namespace wmtp
