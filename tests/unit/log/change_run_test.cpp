#include "log/change_run.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "io/run_lock.hpp"
#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

using RenameRun = LogTest;

TEST_F(RenameRun, MovesTheFolder) {
  std::filesystem::path folder;
  {
    RunLog log(file_, start("old"));
    folder = log.run_folder();
    log.end(ExitStatus::done);
  }
  rename_run(file_, 1, "new.name");
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "1-new.name"));
  EXPECT_EQ(text("SELECT name FROM runs"), "new.name");
}

TEST_F(RenameRun, RefusesAnInvalidNameAnActiveRunAndAFolderThatExists) {
  RunLog log(file_, start("old"));
  EXPECT_TRUE(holds(refusal(ExitStatus::usage, [&] { rename_run(file_, 1, "new"); }), "is running"));
  log.end(ExitStatus::done);
  for (const std::string name : {"", "-a", "a/b", "a b"})
    EXPECT_TRUE(holds(refusal(ExitStatus::usage, [&] { rename_run(file_, 1, name); }), "wanted at most 64 letters"));
  std::filesystem::create_directory(folder_ / "1-taken");
  EXPECT_TRUE(holds(refusal(ExitStatus::storage, [&] { rename_run(file_, 1, "taken"); }), "already exists"));
  EXPECT_EQ(text("SELECT name FROM runs"), "old");
  EXPECT_TRUE(std::filesystem::exists(log.run_folder()));
}

TEST_F(RenameRun, LeavesTheFolderAloneWhileItWaitsForALock) {
  RunLog(file_, start("old")).end(ExitStatus::done);
  Database other(file_, Database::Mode::write);
  std::optional<Transaction> lock(std::in_place, other);
  std::thread renaming([&] { rename_run(file_, 1, "new"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "1-old")) << "whoever ends the program now has the run as it was";
  lock.reset();
  renaming.join();
  EXPECT_TRUE(std::filesystem::exists(folder_ / "1-new"));
  EXPECT_EQ(text("SELECT name FROM runs"), "new");
}

class DeleteRun : public LogTest {
 protected:
  /// A segment with a folder of 8 bytes; `parent` is the one that it resumes.
  int64_t segment(int64_t parent) const {
    RunStart given = start("parts");
    given.parent_run = parent;
    RunLog log(file_, given);
    std::ofstream(log.run_folder() / "weights") << "8 bytes!";
    log.end(parent == 0 ? ExitStatus::interrupted : ExitStatus::done);
    return log.run_id();
  }
  std::vector<RunToDelete> found(const std::vector<int64_t>& ids) const {
    return find_runs_to_delete(LogReader(file_), ids);
  }
  std::string left() const {
    return text("SELECT coalesce(group_concat(id), '') FROM (SELECT id FROM runs ORDER BY 1)");
  }
  int64_t folders() const {
    return std::count_if(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator(),
                         [](const auto& entry) { return entry.is_directory(); });
  }
};

TEST_F(DeleteRun, DeletesAllSegmentsWhicheverOfThemIsNamed) {
  for (const int64_t named : {0, 1, 2}) {
    const int64_t other = segment(0), first = segment(0), second = segment(first), third = segment(second);
    const auto runs = found({first + named, third});
    ASSERT_EQ(runs.size(), 1u) << "two segments of one run";
    const auto id = [](int64_t number) { return std::to_string(number); };
    const std::string what = what_is_deleted(runs[0]);
    EXPECT_TRUE(what.starts_with("run " + id(third) + " (parts) with its segments " + id(first) + " and " + id(second) +
                                 ": their rows and 24 B in "))
        << what;
    delete_run(file_, runs[0]);
    EXPECT_EQ(left(), id(other));
    EXPECT_EQ(folders(), 1);
    delete_run(file_, found({other})[0]);
    EXPECT_EQ(folders(), 0);
  }
}

TEST_F(DeleteRun, KeepsASegmentThatAnotherRunContinues) {
  const int64_t first = segment(0), a = segment(first), b = segment(first);
  EXPECT_TRUE(holds(refusal(ExitStatus::usage, [&] { found({first}); }), "run 1 (parts) is a segment of runs 2 and 3"));
  const auto one = found({a});
  EXPECT_TRUE(holds(what_is_deleted(one[0]), "; its beginning stays in run 1, which another run continues"));
  const auto both = found({a, b, first});
  ASSERT_EQ(both.size(), 2u);
  for (const RunToDelete& run : both) delete_run(file_, run);
  EXPECT_EQ(left(), "");
  EXPECT_EQ(folders(), 0);
}

TEST_F(DeleteRun, DeletesNothingIfOneSegmentIsAnotherRunByNow) {
  const int64_t first = segment(0), second = segment(first);
  auto runs = found({second});
  runs[0].segments[1].key = "another";
  EXPECT_TRUE(holds(refusal(ExitStatus::storage, [&] { delete_run(file_, runs[0]); }), "was replaced"));
  EXPECT_EQ(left(), "1,2");
  EXPECT_EQ(folders(), 2);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "1-parts/weights"));
}

}  // namespace
}  // namespace wmtp
