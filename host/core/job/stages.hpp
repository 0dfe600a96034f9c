// The stages of an experiment and their hashes. Determined once, by the launcher or rank 0, and passed on, so that a
// stage's data is hashed only once.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"
#include "core/job/identity.hpp"

namespace wmtp {

struct NamedStage {
  std::vector<std::string> tables;  ///< that name this stage: "model", "reference", "value"
  const Experiment* experiment = nullptr;
};

/// Each stage that an experiment names itself, once, even if two tables name it.
std::vector<NamedStage> named_stages(const Experiment& experiment);

/// "reference", or "model, value", for messages.
std::string tables_text(const NamedStage& stage);

/// Hashes of experiments and of the stages below them, each computed once.
class ExperimentHashes {
 public:
  ExperimentHashes(const Catalog& catalog, std::filesystem::path database)
      : catalog_(catalog), database_(std::move(database)) {}
  /// Of an experiment that outlives this object. Errors as experiment_hash.
  const std::string& of(const Experiment& experiment);

 private:
  const Catalog& catalog_;
  std::filesystem::path database_;
  std::map<const Experiment*, std::string> known_;
};

/// From rank 0 to the others. `stages_from_text` throws Error(bug).
std::string to_text(const Stages& stages);
Stages stages_from_text(const std::string& text);

}  // namespace wmtp
