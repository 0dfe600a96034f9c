// The available memory and the usable cores, from files as written by Linux.
#include "base/machine.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>

namespace wmtp {
namespace {

class AvailableMemory : public testing::Test {
 protected:
  AvailableMemory() {
    std::filesystem::create_directories(root_);
    put("proc/meminfo", "MemTotal:       16000 kB\nMemFree:          100 kB\nMemAvailable:    8000 kB\n");
  }
  ~AvailableMemory() override { std::filesystem::remove_all(root_); }
  void put(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  std::optional<int64_t> available() const { return available_memory(root_); }

  const std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("wmtp-memory-" + std::to_string(getpid()));
  static constexpr int64_t of_system = 8000 * 1024;
};

TEST_F(AvailableMemory, IsThatOfTheSystemWithoutALimit) {
  EXPECT_EQ(available(), of_system);
  put("proc/self/cgroup", "0::/user.slice/shell\n");
  put("sys/fs/cgroup/user.slice/memory.max", "max\n");
  put("sys/fs/cgroup/user.slice/memory.current", "5000\n");
  EXPECT_EQ(available(), of_system);
}

TEST_F(AvailableMemory, IsTheRemainderOfTheTightestGroup) {
  put("proc/self/cgroup", "0::/a/b\n");
  put("sys/fs/cgroup/a/b/memory.max", "1000000\n");
  put("sys/fs/cgroup/a/b/memory.current", "100000\n");
  EXPECT_EQ(available(), 900000);
  put("sys/fs/cgroup/a/memory.max", "800000\n");
  put("sys/fs/cgroup/a/memory.current", "700000\n");
  EXPECT_EQ(available(), 100000);
  put("sys/fs/cgroup/a/memory.stat", "anon 100\nactive_file 20000\ninactive_file 30000\n");
  EXPECT_EQ(available(), 150000) << "a file's cache gives way";
}

TEST_F(AvailableMemory, UsesTheLimitOfAContainerWhoseGroupIsNotVisible) {
  put("proc/self/cgroup", "12:cpu,cpuacct:/docker/4f\n9:memory:/docker/4f\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "500000\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "200000\n");
  put("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 50000\n");
  EXPECT_EQ(available(), 350000);
}

TEST_F(AvailableMemory, IsThatOfTheSystemWhereMoreCacheIsReportedThanMemoryInUse) {
  put("proc/self/cgroup", "9:memory:/docker/4f\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
  put("sys/fs/cgroup/memory/memory.stat", "total_active_file 900000\ntotal_inactive_file 200000\n");
  EXPECT_EQ(available(), of_system);
}

TEST_F(AvailableMemory, IsUnknownWithoutMeminfo) {
  std::filesystem::remove_all(root_);
  EXPECT_EQ(available(), std::nullopt);
}

class UsableCores : public AvailableMemory {
 protected:
  int cores() const { return usable_cores(root_); }
  const int of_mask_ = usable_cores(root_);  ///< without a group
};

TEST_F(UsableCores, AreThoseOfTheAffinityMaskWithoutAQuota) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(cores(), CPU_COUNT(&before));
  put("proc/self/cgroup", "0::/a\n3:cpu,cpuacct:/b\n");
  put("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/cpu/b/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(cores(), 1);
  sched_setaffinity(0, sizeof before, &before);
}

TEST_F(UsableCores, AreAtMostTheTightestQuotaOfAllGroupsAbove) {
  put("proc/self/cgroup", "0::/kubepods/pod/container\n");
  put("sys/fs/cgroup/kubepods/pod/container/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/kubepods/pod/cpu.max", "150000 100000\n");
  put("sys/fs/cgroup/kubepods/cpu.max", "800000 100000\n");
  EXPECT_EQ(cores(), 1) << "of 1.5, so that no thread waits for the next period";
  put("sys/fs/cgroup/kubepods/pod/cpu.max", "100000000 100000\n");
  put("sys/fs/cgroup/kubepods/cpu.max", "50000 100000\n");
  EXPECT_EQ(cores(), 1) << "half a core";
  put("sys/fs/cgroup/kubepods/cpu.max", "100000000 100000\n");
  EXPECT_EQ(cores(), of_mask_);
}

TEST_F(UsableCores, AreAtMostTheQuotaOfAContainerWhoseGroupIsNotVisible) {
  put("proc/self/cgroup", "12:cpu,cpuacct:/docker/4f\n9:memory:/docker/4f\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(cores(), of_mask_) << "a quota without a period is none";
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), 1);
}

}  // namespace
}  // namespace wmtp
