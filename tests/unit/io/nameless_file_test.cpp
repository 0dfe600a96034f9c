// A file that only its process can reach, whose transfers are whole or an error that names the folder.
#include "io/nameless_file.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/failing_transfers.hpp"
#include "support/test_folder.hpp"

namespace wmtp::test {
namespace {

TEST(NamelessFile, KeepsBytesAndLeavesItsFolderEmpty) {
  const TestFolder folder;
  const NamelessFile file(folder.path(), "a test");
  EXPECT_TRUE(fs::is_empty(folder.path()));
  file.write(7, "later", 5);
  file.write(0, "earlier", 7);
  std::string found(12, '\0');
  file.read(0, found.data(), found.size());
  EXPECT_EQ(found, "earlierlater");
}

TEST(NamelessFile, NamesTheFolderAndTheSizeIfItIsKnown) {
  const TestFolder folder;
  const auto refused = [&](std::optional<int64_t> bytes) {
    return refusal(ExitStatus::storage, [&] { NamelessFile(folder / "none", "a test", bytes); });
  };
  EXPECT_SAYS(refused(std::nullopt), "cannot create a file for a test in " + (folder / "none").string());
  EXPECT_SAYS(refused(3 << 20), "cannot create a file of 3.0 MiB for a test in " + (folder / "none").string());
}

TEST(NamelessFile, NamesTheFolderWhenTheDiskFailsOrTransfersNothing) {
  const TestFolder folder;
  const NamelessFile file(folder.path(), "a test");
  std::string bytes(16, 'x');
  const std::string broken = "in " + folder.path().string() + ": Input/output error; check the disk";
  const auto expect_refusals = [&] {
    reads_left = 0;
    EXPECT_SAYS(refusal(ExitStatus::storage, [&] { file.read(0, bytes.data(), bytes.size()); }),
                "cannot read a test from a file " + broken);
    writes_left = 0;
    EXPECT_SAYS(refusal(ExitStatus::storage, [&] { file.write(0, bytes.data(), bytes.size()); }),
                "cannot write a test to a file " + broken);
  };
  expect_refusals();
  failure_code = 0;
  expect_refusals();
  failure_code = EIO;
  file.write(0, bytes.data(), bytes.size());
  EXPECT_SAYS(refusal(ExitStatus::storage, [&] { file.read(8, bytes.data(), bytes.size()); }), broken)
      << "it ends within what is read";
}

}  // namespace
}  // namespace wmtp::test
