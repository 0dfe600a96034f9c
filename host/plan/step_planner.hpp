// StepPlanner: asks the engine what a step of an experiment needs in other layouts. The engine is started by the first
// request and answers many: it loads LibTorch once.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
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
  /// `experiment` and `catalog` must outlive this object. `database`: the log that has the runs which it names.
  StepPlanner(const Experiment& experiment, const Catalog& catalog, std::filesystem::path database);
  ~StepPlanner();

  /// Answers are kept. Error(plugin) if a plugin fails; Error(bug) if the engine ends without an answer.
  PlannedStep plan(const StepRequest& request);

 private:
  void start();
  const Experiment& experiment_;
  const Catalog& catalog_;
  std::filesystem::path database_;
  std::unique_ptr<ScratchFolder> folder_;
  std::unique_ptr<SocketChild> engine_;
  std::map<std::string, PlannedStep> known_;  ///< by request
};

}  // namespace wmtp
