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

struct GoodCheckpoint {
  std::filesystem::path folder;
  Manifest manifest;
};

/// The newest checkpoint that passes verification; damaged newer ones are set aside. Propagates Error(storage) for an
/// unreadable checkpoint, and UnknownManifestVersion: neither is damage.
std::optional<GoodCheckpoint> newest_good(const std::filesystem::path& run_folder, const DamageReport& report);

/// Deletes all but the newest `keep` (at least 1) checkpoints, the newest of which passes verification; deletes none if
/// none passes. Returns the deleted folders.
std::vector<std::filesystem::path> keep_newest(const std::filesystem::path& run_folder, int64_t keep,
                                               const DamageReport& report);

/// Removes the drafts of checkpoints, model and adapter whose process no longer exists. Returns the removed folders.
std::vector<std::filesystem::path> remove_leftovers(const std::filesystem::path& run_folder);

}  // namespace wmtp
