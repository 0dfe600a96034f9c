#include "checkpoint/retention.hpp"

#include <algorithm>

#include "base/files.hpp"
#include "checkpoint/saved_state.hpp"
#include "checkpoint/verify.hpp"
#include "io/crash_points.hpp"
#include "io/durable_file.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

fs::path set_aside(const fs::path& folder) {
  std::error_code ignored;
  fs::path target = folder.string() + ".bad";
  for (int number = 2; fs::exists(fs::symlink_status(target, ignored)); ++number)
    target = folder.string() + ".bad-" + std::to_string(number);
  rename_durably(folder, target);
  return target;
}

/// Whether this is the name of a draft of a checkpoint or a model.
bool is_draft_of_run(const std::string& name) {
  const std::string target = draft_target(name);
  return target.starts_with("model") || target == "adapter" || parse_checkpoint_step(target) >= 0;
}

}  // namespace

std::optional<IntactCheckpoint> newest_intact(const fs::path& run_folder, const DamageReport& report, bool sets_aside) {
  for (const fs::path& folder : list_checkpoints(run_folder)) {
    try {
      return IntactCheckpoint{folder, verify_checkpoint(folder)};
    } catch (const UnknownManifestVersion&) {
      throw;
    } catch (const Error& failure) {
      if (failure.status() != ExitStatus::data) throw;
      const fs::path now = sets_aside ? set_aside(folder) : folder;
      if (report) report(folder, now, failure.what());
    }
  }
  return std::nullopt;
}

std::optional<IntactCheckpoint> best_checkpoint(const std::vector<fs::path>& folders) {
  std::optional<IntactCheckpoint> best;
  std::optional<double> lowest;
  for (const fs::path& folder : folders) {
    try {
      Manifest manifest = read_manifest(folder);
      const RunProgress results = saved_state(manifest, folder.string()).results;
      if (results.valid_step != manifest.step || !results.valid_loss) continue;
      const bool is_newer = best && *results.valid_loss == *lowest && manifest.step > best->manifest.step;
      if (best && !is_newer && *results.valid_loss >= *lowest) continue;
      lowest = results.valid_loss;
      best = IntactCheckpoint{folder, std::move(manifest)};
    } catch (const Error& failure) {
      if (failure.status() != ExitStatus::data) throw;  // damaged: not the best
    }
  }
  return best;
}

void apply_retention(const fs::path& run_folder, const Retention& keep, const DamageReport& report,
                     std::vector<fs::path>& deleted) {
  if (keep.newest < 1)
    throw Error(ExitStatus::bug, "apply_retention was called with newest = " + std::to_string(keep.newest));
  if (!newest_intact(run_folder, report)) return;
  const std::vector<fs::path> folders = list_checkpoints(run_folder);
  const auto best = keep.best ? best_checkpoint(folders) : std::nullopt;
  for (size_t i = size_t(keep.newest); i < folders.size(); ++i) {
    if (best && best->folder == folders[i]) continue;
    const fs::path draft = draft_path(folders[i]);
    rename_durably(folders[i], draft);
    deleted.push_back(folders[i]);
    crash_here(CrashPoint::set_for_deletion);
    remove_folder(draft);
  }
}

std::vector<fs::path> remove_leftovers(const fs::path& run_folder) {
  std::vector<fs::path> leftovers;
  for (const fs::path& path : paths_in(run_folder)) {
    if (!is_draft_of_run(path.filename().string())) continue;
    const FileDescriptor lock = lock_abandoned_draft(path);
    if (lock.get() < 0) continue;
    remove_folder(path);
    leftovers.push_back(path);
  }
  if (const fs::path copy = run_folder / prompts_model_name; is_there(copy)) {
    remove_folder(copy);
    leftovers.push_back(copy);
  }
  return leftovers;
}

}  // namespace wmtp
