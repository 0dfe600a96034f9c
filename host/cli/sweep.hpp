// The members of a [sweep], one after another.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace wmtp {

struct SweepRun {
  std::string what;  ///< "seed=1 optimizer.lr=0.001", for messages
  std::string name;  ///< of the run
  int64_t seed = 0;
  std::string config_hash;
  std::function<int(bool resume)> start;  ///< gives the exit code
};

struct SweepOptions {
  std::filesystem::path database;
  bool resume = false;   ///< a member that was begun goes on
  bool dry_run = false;  ///< only tell what each would do
};

/// Starts those that the log has no finished run of, and prints one table of all to stdout. A member that fails is
/// told, and the next one starts; the exit code is then the first failure's. One that is interrupted is the last.
int run_sweep(const std::vector<SweepRun>& members, const SweepOptions& options);

}  // namespace wmtp
