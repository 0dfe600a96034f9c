#include "io/durable_file.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <system_error>

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
      ::_exit(static_cast<int>(error.status()));
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

TEST(FolderDraft, RemovesTheDraftOfAnEarlierProcessWithTheSamePid) {
  TestFolder folder;
  fs::create_directory(draft_path(folder / "model"));
  put(draft_path(folder / "model") / "old", "x");
  FolderDraft draft(folder / "model");
  draft.publish();
  EXPECT_TRUE(fs::is_empty(folder / "model"));
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
        EXPECT_TRUE(fs::is_empty(folder.path())) << static_cast<int>(operation) << " " << nth;
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
