// A child process saves two checkpoints and deletes the older one; it is killed before its n-th file operation, for
// every n: once normally, once with a simulated power loss, which damages data that was not yet fsynced and undoes
// renames whose folder was not yet fsynced.
#include <sys/wait.h>

#include <map>
#include <set>

#include "checkpoint/retention.hpp"
#include "support/test_folder.hpp"

namespace wmtp::test {

/// Records, in the child, what a power loss could still destroy. The hook runs before an operation, so the last
/// operation that it saw has not happened.
class PowerCut {
 public:
  void announce(FileOperation operation, const fs::path& path) {
    wait_for_copies();
    pending_ = operation;
    pending_path_ = path;
  }

  void strike() const {
    for (const auto& [from, to] : renames_)
      if (fs::exists(to)) fs::rename(to, from);
    for (const fs::path& file : unsynced_) {
      if (!fs::exists(file)) continue;
      const auto size = fs::file_size(file);
      fs::resize_file(file, size / 2);
      fs::resize_file(file, size);
    }
    for (const fs::path& entry : new_entries_) fs::remove_all(entry);
  }

 private:
  void wait_for_copies() {
    switch (pending_) {
      case FileOperation::open:
        unsynced_.insert(pending_path_);
        new_entries_.insert(pending_path_);
        break;
      case FileOperation::fsync:
        unsynced_.erase(pending_path_);
        break;
      case FileOperation::rename:
        renames_[pending_path_] = target_of(pending_path_);
        break;
      case FileOperation::sync_folder:
        std::erase_if(new_entries_, [&](const fs::path& entry) { return entry.parent_path() == pending_path_; });
        std::erase_if(renames_, [&](const auto& rename) { return rename.first.parent_path() == pending_path_; });
        break;
      default:
        break;
    }
  }

  static fs::path target_of(const fs::path& from) {
    const std::string name = from.string();
    const size_t mark = name.rfind(".tmp-");
    if (mark != std::string::npos) return name.substr(0, mark);
    for (const auto& entry : fs::directory_iterator(from.parent_path()))
      if (draft_target(entry.path().filename()) == from.filename()) return entry.path();
    return from;
  }

  FileOperation pending_ = FileOperation::close;
  fs::path pending_path_;
  std::set<fs::path> unsynced_, new_entries_;
  std::map<fs::path, fs::path> renames_;
};

/// Whether the child finished before operation `n`.
bool save_and_crash(const fs::path& run_folder, int n, bool power_cut) {
  const pid_t child = ::fork();
  if (child == 0) {
    PowerCut cut;
    int operations = 0;
    set_file_hook([&](FileOperation operation, const fs::path& path) {
      cut.announce(operation, path);
      if (++operations < n) return;
      if (power_cut) cut.strike();
      ::_exit(99);
    });
    try {
      save_checkpoint(run_folder, 1);
      save_checkpoint(run_folder, 2);
      std::vector<fs::path> deleted;
      apply_retention(run_folder, {1}, {}, deleted);
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 99)) << n;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void expect_content(const fs::path& folder, int64_t step) {
  for (int rank = 0; rank < 2; ++rank) {
    const SafetensorsFile shard(folder / ("rank-000" + std::to_string(rank) + ".safetensors"));
    EXPECT_EQ(read_all<float>(shard, "embedding"), values_of(step, 12, rank * 12)) << "a mix of steps";
  }
}

void crash_everywhere(bool power_cut) {
  int64_t newest = 0;
  std::set<int64_t> seen;
  int n = 1;
  for (; n < 200; ++n) {
    TestFolder folder(memory_folder());
    const bool finished = save_and_crash(folder / "run", n, power_cut);
    int damaged = 0;
    const auto good = newest_intact(folder / "run", [&](const auto&, const auto&, const auto&) { ++damaged; });
    EXPECT_EQ(damaged, 0) << "an incomplete checkpoint under its final name, operation " << n;
    const int64_t step = good ? good->manifest.step : 0;
    if (good) expect_content(good->folder, step);
    EXPECT_GE(step, newest) << "a later crash destroyed an earlier checkpoint, operation " << n;
    newest = step;
    seen.insert(step);

    remove_leftovers(folder / "run");
    for (const auto& item : fs::directory_iterator(folder.path())) {
      for (const auto& entry : fs::directory_iterator(item))
        EXPECT_GE(parse_checkpoint_step(entry.path().filename().string()), 0) << entry.path();
    }
    save_checkpoint(folder / "run", 9);
    EXPECT_EQ(newest_intact(folder / "run", {})->manifest.step, 9);
    if (finished) break;
  }
  EXPECT_EQ(seen, (std::set<int64_t>{0, 1, 2}));
  EXPECT_GT(n, 30);
  EXPECT_LT(n, 200);
}

TEST(Crash, AtAnyOperationLeavesACompleteCheckpointOrNone) { crash_everywhere(false); }

TEST(Crash, PowerLossAtAnyOperationLeavesACompleteCheckpointOrNone) { crash_everywhere(true); }

TEST(Crash, SimulatedPowerLossDetectsASaveWithoutFsync) {
  TestFolder folder;
  PowerCut cut;
  set_file_hook([&](FileOperation operation, const fs::path& path) {
    if (operation != FileOperation::fsync) cut.announce(operation, path);
  });
  const fs::path path = folder / "file";
  DurableFile file(path);
  file.write("abcdefgh");
  file.finish();
  set_file_hook({});
  cut.announce(FileOperation::sync_folder, folder.path());
  cut.announce(FileOperation::close, path);
  cut.strike();
  EXPECT_EQ(get(path), std::string("abcd\0\0\0\0", 8));
}

}  // namespace wmtp::test
