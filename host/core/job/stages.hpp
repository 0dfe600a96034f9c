// The stages of an experiment: which must run, and which finished model stands for each. Found once, by the launcher or
// by rank 0, and handed on: a stage's data is hashed no second time. Knows no LibTorch.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"
#include "core/job/identity.hpp"

namespace wmtp {

struct NamedStage {
  std::vector<std::string> tables;  ///< that name it: "model", "reference", "value"
  const Experiment* experiment = nullptr;
};

/// Each stage that an experiment names itself once, though two tables may name it.
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
