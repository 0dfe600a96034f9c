#include "base/system_limits.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <functional>
#include <new>
#include <stdexcept>
#include <system_error>

#include "support/refusal.hpp"

namespace wmtp {
namespace {

/// Lowers a soft limit during its lifetime.
class Lowered {
 public:
  Lowered(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    getrlimit(resource, &before_);
    const rlimit lower{value, before_.rlim_max};
    setrlimit(resource, &lower);
  }
  ~Lowered() { setrlimit(resource_, &before_); }
  Lowered(const Lowered&) = delete;

 private:
  const __rlimit_resource resource_;
  rlimit before_{};
};

std::optional<Error> caught_from(const std::function<void()>& code) {
  try {
    code();
  } catch (...) {
    return caught_system_error();
  }
  return std::nullopt;
}

TEST(SystemLimits, AreNamedWithTheirValueWhateverTheErrorWasTakenFor) {
  const Lowered files(RLIMIT_NOFILE, 100);
  const Error named = with_limit_named(Error(ExitStatus::peer, "rank 1: Too many open files"));
  EXPECT_EQ(named.status(), ExitStatus::storage);
  EXPECT_STREQ(named.what(), "rank 1: Too many open files; ulimit -n (open files of a process) is 100, raise it");
  EXPECT_STREQ(with_limit_named(named).what(), named.what()) << "once";
  EXPECT_THROW(throw_if_limit_caused(Error(ExitStatus::plugin, "x.so: Too many open files")), Error);
}

TEST(SystemLimits, LeaveOtherErrorsAlone) {
  const Error error(ExitStatus::data, "a.txt: no such file");
  EXPECT_EQ(with_limit_named(error).status(), ExitStatus::data);
  EXPECT_STREQ(with_limit_named(error).what(), error.what());
  EXPECT_NO_THROW(throw_if_limit_caused(error));
  EXPECT_FALSE(caught_from([&] { throw error; }));
  EXPECT_FALSE(caught_from([] { throw std::logic_error("a bug"); }));
}

TEST(SystemLimits, OfThreadsAreThoseOfTheUserOrOfTheControlGroup) {
  const Lowered processes(RLIMIT_NPROC, 50);
  const auto error = caught_from([] { throw std::system_error(EAGAIN, std::generic_category()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status(), ExitStatus::storage);
  EXPECT_NE(std::string(error->what()).find("cannot start a thread: Resource temporarily unavailable; ulimit -u"),
            std::string::npos)
      << error->what();
  EXPECT_NE(std::string(error->what()).find(" is 50"), std::string::npos) << error->what();
}

TEST(SystemLimits, ErrorsOfTheFileSystemNameThePath) {
  const auto error = caught_from([] { std::filesystem::create_directory("/proc/absent/folder"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status(), ExitStatus::storage);
  EXPECT_STREQ(error->what(), "/proc/absent/folder: No such file or directory");
}

TEST(SystemLimits, OfMemoryHaveTheirOwnExitCode) {
  const auto error = caught_from([] { throw std::bad_alloc(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status(), ExitStatus::device_memory);
}

TEST(SystemLimits, RefuseAStackThatMayBeTooSmall) {
  EXPECT_NO_THROW(check_stack_limit());
  const Lowered stack(RLIMIT_STACK, 64 << 10);
  EXPECT_EQ(test::refusal(ExitStatus::storage, [] { check_stack_limit(); }),
            "ulimit -s (KiB of a stack) is 64, wanted at least 256; raise it");
}

TEST(SystemLimits, ThreadsThatCanBeStartedAreFine) { EXPECT_NO_THROW(check_threads(8)); }

}  // namespace
}  // namespace wmtp
