// Checks a run's requirements by trying them: cores and memory, engine, CUDA, plugins, run log, disk, sandbox.
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
  ExitStatus status = ExitStatus::done;  ///< the error's status if the state is bad
};

/// Whether the first CUDA device computes the same as the CPU, and how fast; takes seconds. Error(usage) without one.
std::vector<MachineCheck> check_cuda_device();

std::vector<MachineCheck> check_machine(const std::vector<std::filesystem::path>& plugin_folders,
                                        const std::filesystem::path& database);

}  // namespace wmtp
