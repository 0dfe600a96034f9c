// The engine's side of StepPlanner (plan/step_planner.hpp).
#pragma once

#include <filesystem>
#include <vector>

namespace wmtp {

/// Answers requests about steps, which it reads from descriptor 0 and answers there, a line each: {"file": of an
/// experiment, "request": StepRequest} with {"step": PlannedStep}, or {"error": text, "status": exit code}. Returns
/// when the other end is closed. [in a process without tensors]
void serve_plans(const std::vector<std::filesystem::path>& plugin_folders);

}  // namespace wmtp
