#include "io/durable_file.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <system_error>
#include <vector>

#include "support/test_folder.hpp"

namespace wmtp::test {

/// Makes the n-th operation of a kind fail with `code`.
FileHook failing(FileOperation kind, int code, int nth = 1) {
  return [=, left = nth](FileOperation operation, const fs::path&) mutable {
    if (operation == kind && --left == 0) throw std::system_error(code, std::generic_category());
  };
}

TEST(DurableFile, WritesSequentiallyAndAtOffsets) {
  TestFolder folder;
  DurableFile file(folder / "file");
  file.write("abc");
  file.write_at(6, "ghi", 3);
  file.write("def");
  file.finish();
  EXPECT_EQ(get(folder / "file"), "abcdefghi");
}

TEST(DurableFile, NeverOverwritesAFile) {
  TestFolder folder;
  put(folder / "file", "kept");
  EXPECT_SAYS(refusal(ExitStatus::storage, [&] { DurableFile file(folder / "file"); }), "File exists");
  EXPECT_EQ(get(folder / "file"), "kept");
}

TEST(DurableFile, ReportsEveryFailedOperationWithThePath) {
  for (const FileOperation operation :
       {FileOperation::open, FileOperation::write, FileOperation::fsync, FileOperation::close}) {
    TestFolder folder;
    set_file_hook(failing(operation, EIO));
    const std::string text = refusal(ExitStatus::storage, [&] {
      DurableFile file(folder / "some-file");
      file.write("x");
      file.finish();
    });
    EXPECT_SAYS(text, "some-file");
    EXPECT_SAYS(text, "Input/output error");
  }
}

TEST(DurableFile, ReportsAStorageErrorWhenTheFileMayNotGrow) {
  TestFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      DurableFile file(folder / "file");
      file.write(std::string(3000, 'x'));
      file.finish();
    } catch (const Error& error) {
      ::_exit(int(error.status()));
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(fs::file_size(folder / "file"), 1000u);
}

TEST(FolderDraft, LeavesNothingUnlessItIsPublished) {
  TestFolder folder;
  {
    FolderDraft draft(folder / "run/step-000001");
    put(draft.path() / "file", "x");
  }
  EXPECT_TRUE(fs::is_empty(folder / "run"));
  {
    FolderDraft draft(folder / "run/step-000001");
    put(draft.path() / "file", "x");
    draft.publish();
  }
  EXPECT_EQ(get(folder / "run/step-000001/file"), "x");
}

TEST(Drafts, OfOneTargetAreIndependent) {
  TestFolder folder;  // processes in two containers have the same ID
  FolderDraft first(folder / "model");
  put(first.path() / "file", "first");
  FileDraft first_file(folder / "file");
  put(first_file.path(), "first");
  FolderDraft second(folder / "model");
  put(second.path() / "file", "sec");
  FileDraft second_file(folder / "file");
  put(second_file.path(), "sec");
  first.publish();
  first_file.publish();
  EXPECT_EQ(get(folder / "model/file"), "first");
  EXPECT_EQ(get(folder / "file"), "first");
  second_file.replace();
  EXPECT_EQ(get(folder / "file"), "sec");
}

/// How a process with drafts of a file and a folder ends by `signal`, which it may ignore.
int end_of_writer(const TestFolder& folder, int signal, bool ignores = false) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::signal(signal, ignores ? SIG_IGN : SIG_DFL);
    FolderDraft draft(folder / "checkpoint");
    fs::create_directories(draft.path() / "events/run");
    put(draft.path() / "events/run/file", std::string(5000, 'x'));
    fs::create_directory_symlink(folder / "kept", draft.path() / "link");
    FileDraft file(folder / "table");
    put(file.path(), "x");
    ::raise(signal);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

std::vector<std::string> drafts_in(const TestFolder& folder) {
  std::vector<std::string> drafts;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    if (const std::string name = entry.path().filename(); name != "kept") drafts.push_back(name);
  return drafts;
}

TEST(Drafts, AreRemovedByASignalThatEndsTheProcess) {
  TestFolder folder;
  fs::create_directory(folder / "kept");
  put(folder / "kept/file", "x");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGALRM, SIGVTALRM, SIGPIPE}) {
    const int status = end_of_writer(folder, signal);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << signal;
    EXPECT_TRUE(drafts_in(folder).empty()) << signal;
  }
  EXPECT_EQ(get(folder / "kept/file"), "x") << "links lead nowhere";
  EXPECT_EQ(end_of_writer(folder, SIGHUP, /*ignores=*/true), 0) << "as with nohup";
}

TEST(Drafts, OfAKilledProcessAreRemovedByTheNextDraftInTheFolder) {
  TestFolder folder;
  fs::create_directory(folder / "kept");
  FolderDraft live(folder / "live");
  end_of_writer(folder, SIGKILL);
  EXPECT_EQ(drafts_in(folder).size(), 3u);
  fs::path theirs = draft_path(folder / "theirs");  // of another machine, which may still write it
  theirs = folder / ("theirs.tmp-000000" + theirs.filename().string().substr(17));
  for (const fs::path& path : {theirs, folder / "notes.tmp-1234", folder / "notes.tmp-mine"})
    fs::create_directory(path);
  { FileDraft next(folder / "next"); }
  EXPECT_EQ(drafts_in(folder).size(), 4u) << "the live one, and those that are not of this machine";
  EXPECT_TRUE(fs::exists(live.path()));
}

TEST(FolderDraft, NeverReplacesAFolder) {
  TestFolder folder;
  FolderDraft draft(folder / "model");
  fs::create_directory(folder / "model");
  EXPECT_SAYS(refusal(ExitStatus::storage, [&] { draft.publish(); }), "File exists");
}

TEST(FolderDraft, LeavesNoFolderAfterAnyFailureAndTheNextSaveWorks) {
  int failures = 0;
  for (const FileOperation operation :
       {FileOperation::create_folder, FileOperation::open, FileOperation::write, FileOperation::fsync,
        FileOperation::close, FileOperation::rename, FileOperation::sync_folder}) {
    for (int nth = 1; nth < 100; ++nth) {
      TestFolder folder(memory_folder());
      set_file_hook(failing(operation, operation == FileOperation::write ? ENOSPC : EIO, nth));
      bool failed = false;
      try {
        save_checkpoint(folder.path(), 1);
      } catch (const Error& error) {
        failed = true;
        EXPECT_EQ(error.status(), ExitStatus::storage) << error.what();
        EXPECT_TRUE(fs::is_empty(folder.path())) << int(operation) << " " << nth;
      }
      if (!failed) break;
      ++failures;
      set_file_hook({});
      save_checkpoint(folder.path(), 1);
      EXPECT_EQ(verify_checkpoint(folder / "step-000001").step, 1);
    }
  }
  EXPECT_GT(failures, 20);
}

TEST(WriteFileDurably, ReplacesAFileCompletelyOrNotAtAll) {
  TestFolder folder;
  write_file_durably(folder / "latest", "one");
  write_file_durably(folder / "latest", "two");
  EXPECT_EQ(get(folder / "latest"), "two");
  set_file_hook(failing(FileOperation::fsync, EIO));
  refusal(ExitStatus::storage, [&] { write_file_durably(folder / "latest", "three"); });
  EXPECT_EQ(get(folder / "latest"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator{}), 1);
}

}  // namespace wmtp::test
