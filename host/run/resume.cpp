#include "run/resume.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "checkpoint/retention.hpp"
#include "log/log_reader.hpp"
#include "run/run_lock.hpp"

namespace wmtp {

ResumePoint find_resume_point(const std::string& config_hash, const std::filesystem::path& database,
                              const std::function<void(const std::string&)>& say) {
  const LogReader log(database);
  const Table runs = log.query(
      "WITH RECURSIVE done(id) AS (SELECT parent_run FROM runs WHERE status = 'finished' AND parent_run IS NOT NULL "
      "UNION SELECT r.parent_run FROM runs r JOIN done d ON r.id = d.id WHERE r.parent_run IS NOT NULL) "
      "SELECT id, name FROM runs WHERE config_hash = ?1 AND status <> 'finished' AND id NOT IN (SELECT id FROM done) "
      "ORDER BY id DESC",
      {config_hash}, 1000);
  const auto report = [&](const std::filesystem::path& was, const std::filesystem::path&, const std::string& reason) {
    say("damaged checkpoint set aside: " + was.string() + ": " + reason);
  };
  for (const auto& row : runs.rows) {
    const int64_t id = row[0].get<int64_t>();
    const std::filesystem::path folder =
        database.parent_path() / (std::to_string(id) + "-" + row[1].get<std::string>());
    if (!std::filesystem::exists(folder)) continue;
    if (RunLock::is_held(folder))
      throw Error(ExitStatus::data, "--resume: run " + std::to_string(id) + " of this experiment is still running (" +
                                        folder.string() + " is locked); stop it first");
    if (const auto good = newest_good(folder, report)) return {id, good->folder};
  }
  throw Error(ExitStatus::data, "--resume: " + database.string() +
                                    " holds no unfinished run of this experiment (hash " + config_hash.substr(0, 12) +
                                    ") with a checkpoint that verifies; run it without --resume");
}

}  // namespace wmtp
