#include "core/job/resume.hpp"

#include <chrono>
#include <thread>

#include "base/error.hpp"
#include "base/log.hpp"
#include "core/checkpoints/retention.hpp"
#include "core/runlog/log_reader.hpp"
#include "io/run_lock.hpp"

namespace wmtp {
namespace {

/// A killed process holds its lock until its memory is released.
constexpr std::chrono::milliseconds time_to_die{2000}, between_looks{50};

bool stays_held(const std::filesystem::path& run_folder) {
  for (auto waited = between_looks; RunLock::is_held(run_folder); waited += between_looks) {
    if (waited > time_to_die) return true;
    std::this_thread::sleep_for(between_looks);
  }
  return false;
}

}  // namespace

std::optional<ResumePoint> resume_point(const std::string& config_hash, const std::filesystem::path& database) {
  if (!std::filesystem::exists(database)) return std::nullopt;
  const auto report = [&](const std::filesystem::path& was, const std::filesystem::path&, const std::string& reason) {
    log_warning("damaged checkpoint set aside: " + was.string() + ": " + reason);
  };
  for (const LoggedRun& run : LogReader(database).unfinished_with_hash(config_hash)) {
    if (!std::filesystem::exists(run.folder)) continue;
    if (stays_held(run.folder))
      throw Error(ExitStatus::data, "--resume: run " + std::to_string(run.id) +
                                        " of this experiment is still running (" + run.folder.string() +
                                        " is locked); stop it first");
    remove_leftovers(run.folder);
    if (const auto good = newest_good(run.folder, report)) return ResumePoint{run.id, good->folder};
  }
  return std::nullopt;
}

bool was_begun(const std::string& config_hash, const std::filesystem::path& database) {
  return std::filesystem::exists(database) && !LogReader(database).unfinished_with_hash(config_hash).empty();
}

}  // namespace wmtp
