// The members of a [sweep], or several files: which run, so many at a time, and what came of all of them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace wmtp {

struct SweepRun {
  std::string what;  ///< "seed=1 optimizer.lr=0.001", "rho1.toml", for messages
  std::string name;  ///< of the run
  int64_t seed = 0;
  int64_t processes = 1;
  std::string config_hash;
  std::function<int()> run_stages;                            ///< those that the log lacks; gives the exit code
  std::function<std::vector<std::string>(bool resume)> call;  ///< of this program, which is the run
};

struct SweepOptions {
  std::filesystem::path database;
  size_t jobs = 1;
  bool resume = false;   ///< a member that was begun goes on
  bool dry_run = false;  ///< only tell what each would do
};

/// Starts those that the log has no finished run of, after the stages that they need, and prints one table of all to
/// stdout. A member that fails is told, and the others go on; the exit code is then that of the first such member. Once
/// one was interrupted no further one starts. Error(usage) where so many at a time need more cores than there are.
int run_sweep(const std::vector<SweepRun>& members, const SweepOptions& options);

}  // namespace wmtp
