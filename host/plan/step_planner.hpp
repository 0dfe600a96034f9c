// StepPlanner: asks the engine what steps of experiments need in other layouts. The engine is started by the first
// request and answers many: it loads LibTorch once.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "plan/step_request.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {

class ScratchFolder;
class SocketChild;

/// The answer to a request about one experiment: StepPlanner::plan, or a test's.
using PlanStep = std::function<PlannedStep(const StepRequest& request)>;

class StepPlanner {
 public:
  /// `catalog` must outlive this object. `database`: the log that has the runs which experiments name.
  StepPlanner(const Catalog& catalog, std::filesystem::path database);
  ~StepPlanner();

  /// Answers requests about the experiment, which, like this object, must outlive the result. Answers are kept. The
  /// result throws Error(plugin) if a plugin fails, Error(bug) if the engine ends without an answer.
  PlanStep steps_of(const Experiment& experiment);

 private:
  struct Steps;
  std::string written(const Experiment& experiment);
  PlannedStep plan(Steps& steps, const StepRequest& request);

  const Catalog& catalog_;
  std::filesystem::path database_;
  std::unique_ptr<ScratchFolder> folder_;
  int num_written_ = 0;  ///< experiments, in the folder
  std::unique_ptr<SocketChild> engine_;
};

}  // namespace wmtp
