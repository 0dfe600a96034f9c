// Which checkpoints of a run stay. Nothing is deleted but step-NNNNNN folders beyond the limit and drafts of processes
// that are gone; a damaged checkpoint is renamed NAME.bad and kept for a person to look at.
// Deleting renames to NAME.tmp-PID first, so a crash in the middle leaves a draft and never half a checkpoint.
// [one process of a run at a time]
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/checkpoints/manifest.hpp"

namespace wmtp {

/// Told of each checkpoint set aside: its old and its new path, and why.
using DamageReport =
    std::function<void(const std::filesystem::path& was, const std::filesystem::path& now, const std::string& reason)>;

struct GoodCheckpoint {
  std::filesystem::path folder;
  Manifest manifest;
};

/// The newest checkpoint that verifies; newer ones that do not are set aside. Error(storage) when one cannot be read,
/// and UnknownManifestVersion, are passed on: neither is damage.
std::optional<GoodCheckpoint> newest_good(const std::filesystem::path& run_folder, const DamageReport& report);

/// Deletes all but the newest `keep` (at least 1) checkpoints, the newest of which verifies; deletes none when none
/// does. Returns what was deleted.
std::vector<std::filesystem::path> keep_newest(const std::filesystem::path& run_folder, int64_t keep,
                                               const DamageReport& report);

/// Removes the drafts (step-NNNNNN.tmp-PID, model.tmp-PID, adapter.tmp-PID) of processes that no longer live. Returns what was removed.
std::vector<std::filesystem::path> remove_leftovers(const std::filesystem::path& run_folder);

}  // namespace wmtp
