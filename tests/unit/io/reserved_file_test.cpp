// The space is there before it is used, or the folder, the bytes and the cause are named.
#include "io/reserved_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "support/test_folder.hpp"

namespace wmtp::test {
namespace {

constexpr int64_t page = ReservedFile::alignment;

struct Pages {
  explicit Pages(size_t count)
      : size(count * size_t(page)), bytes(static_cast<char*>(std::aligned_alloc(page, size))) {}
  ~Pages() { std::free(bytes); }
  Pages(const Pages&) = delete;
  const size_t size;
  char* const bytes;
};

TEST(ReservedFile, KeepsBytesAndBeginsWithZeros) {
  for (const fs::path& parent : {fs::temp_directory_path(), memory_folder()}) {  // with direct transfers and without
    const TestFolder folder(parent);
    const ReservedFile file(folder.path(), "a test", 4 * page);
    EXPECT_TRUE(fs::is_empty(folder.path())) << "it has no name";
    const Pages given(2), found(4);
    for (size_t i = 0; i < given.size; ++i) given.bytes[i] = char(i * 7 + 1);
    file.write(page, given.bytes, given.size);
    std::memset(found.bytes, 1, found.size);
    file.read(0, found.bytes, found.size);
    EXPECT_EQ(std::memcmp(found.bytes + page, given.bytes, given.size), 0);
    const std::string zeros(size_t(page), '\0');
    EXPECT_EQ(std::string(found.bytes, size_t(page)), zeros);
    EXPECT_EQ(std::string(found.bytes + 3 * page, size_t(page)), zeros);
  }
}

TEST(ReservedFile, NamesTheFolderAndTheBytesThatAreWantedAndFree) {
  const TestFolder folder;
  const auto refused = [](const fs::path& where, int64_t bytes) {
    return refusal(ExitStatus::storage, [&] { ReservedFile(where, "a test", bytes); });
  };
  const std::string missing = refused(folder / "none", 3 << 20);
  EXPECT_SAYS(missing, "cannot create a file of 3.0 MiB for a test in " + (folder / "none").string());
  EXPECT_SAYS(missing, "check the path");
  EXPECT_SAYS(refused("/proc/self", page), "cannot create a file of 4.0 KiB for a test in /proc/self: ");
  const std::string full = refused(folder.path(), int64_t{1} << 60);
  EXPECT_SAYS(full, "cannot reserve ");
  EXPECT_SAYS(full, " for a test, of which ");
  EXPECT_SAYS(full, " are free, in " + folder.path().string());
  EXPECT_SAYS(full, "free some space there, or choose another folder");
}

TEST(ReservedFile, IsRefusedBeyondALimitOfTheProcess) {
  const TestFolder folder;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = rlim_t(page);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string refused =
      refusal(ExitStatus::storage, [&] { ReservedFile(folder.path(), "a test", int64_t{2} << 20); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_SAYS(refused, "cannot reserve 2.0 MiB for a test");
  EXPECT_SAYS(refused, folder.path().string() + ": File too large");
}

}  // namespace
}  // namespace wmtp::test
