// Decides which checkpoints of a run are kept. Deletes only step-NNNNNN folders beyond the limit, and drafts
// (io/draft.hpp) whose process no longer exists; a damaged checkpoint is renamed to NAME.bad for inspection. A folder
// is renamed to a draft before it is deleted, so a crash leaves a draft and never half a checkpoint. [one process of a
// run at a time]
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"

namespace wmtp {

/// Called for each checkpoint that is set aside: old path, new path, reason.
using DamageReport =
    std::function<void(const std::filesystem::path& was, const std::filesystem::path& now, const std::string& reason)>;

struct IntactCheckpoint {
  std::filesystem::path folder;
  Manifest manifest;
};

/// The newest checkpoint that passes verification; damaged newer ones are set aside, or, if not `sets_aside`, reported
/// with their own path as the new one. Propagates Error(storage) for an unreadable checkpoint, and
/// UnknownManifestVersion: neither is damage.
std::optional<IntactCheckpoint> newest_intact(const std::filesystem::path& run_folder, const DamageReport& report,
                                              bool sets_aside = true);

/// Which checkpoints of a run are kept.
struct Retention {
  int64_t newest = 1;  ///< at least 1
  bool best = false;   ///< also best_checkpoint
};

/// Deletes the other checkpoints, after the newest has passed verification; deletes none if none passes. Adds them to
/// `deleted`, also those before one that cannot be deleted.
void apply_retention(const std::filesystem::path& run_folder, const Retention& keep, const DamageReport& report,
                     std::vector<std::filesystem::path>& deleted);

/// Of checkpoints that were saved at a validation that of the lowest loss of head 1, or of an objective's own loss (the
/// newest if several have it), judged by their manifests, without verification; nullopt if there is none.
std::optional<IntactCheckpoint> best_checkpoint(const std::vector<std::filesystem::path>& folders);

/// In the run's folder, while log.prompts are continued: the model that continues them.
constexpr const char* prompts_model_name = "model-for-prompts";

/// Removes the drafts of checkpoints, models and the adapter whose process no longer exists, and the model of prompts.
/// Returns the removed folders. [the run is not active]
std::vector<std::filesystem::path> remove_leftovers(const std::filesystem::path& run_folder);

}  // namespace wmtp
