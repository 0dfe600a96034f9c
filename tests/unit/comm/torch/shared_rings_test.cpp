// Shared memory between real processes.
#include "comm/torch/shared_rings.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <numeric>
#include <thread>

namespace wmtp {
namespace {

using std::chrono::milliseconds;

/// A process that attaches as `index`, calls this and exits with its result.
class Other {
 public:
  Other(const std::string& address, int index, const std::function<int(SharedRings&)>& act) : pid_(fork()) {
    if (pid_ != 0) return;
    auto rings = SharedRings::attach(address, index);
    _exit(rings ? act(*rings) : 99);
  }
  ~Other() {
    if (pid_ > 0) end(SIGKILL);
  }
  int exit_code() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void end(int signal) {
    kill(pid_, signal);
    exit_code();
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

constexpr int64_t capacity = 4096;  // the minimum is a page

std::string counted(int64_t bytes) {
  std::string text(size_t(bytes), '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = char(i * 31 + i / 251);
  return text;
}

void put_all(SharedRings& rings, const std::string& text) {
  for (size_t begin = 0; begin < text.size();) {
    const uint32_t seen = rings.changes();
    const int64_t put = rings.put(text.data() + begin, int64_t(text.size() - begin));
    if (put == 0) rings.sleep(seen, milliseconds(1000));
    begin += size_t(put);
  }
}

std::string taken(SharedRings& rings, int source, int64_t bytes) {
  std::string text(size_t(bytes), '\0');
  for (int64_t begin = 0; begin < bytes;) {
    const uint32_t seen = rings.changes();
    const int64_t count = rings.take(source, text.data() + begin, bytes - begin);
    if (count == 0) rings.sleep(seen, milliseconds(1000));
    begin += count;
  }
  return text;
}

TEST(SharedRings, CarryMoreThanTheirCapacityBothWays) {
  auto mine = SharedRings::create(2, capacity);
  ASSERT_TRUE(mine);
  const std::string text = counted(10 * capacity + 77);
  Other other(mine->address(), 1, [&](SharedRings& rings) {
    const std::string came = taken(rings, 0, int64_t(text.size()));
    put_all(rings, came);
    return came == text ? 0 : 1;
  });
  put_all(*mine, text);
  EXPECT_TRUE(taken(*mine, 1, int64_t(text.size())) == text);
  EXPECT_EQ(other.exit_code(), 0);
}

TEST(SharedRings, KeepBytesUntilTheSlowestReaderTakesThem) {
  auto mine = SharedRings::create(3, capacity);
  ASSERT_TRUE(mine);
  auto one = SharedRings::attach(mine->address(), 1), two = SharedRings::attach(mine->address(), 2);
  ASSERT_TRUE(one && two);
  const std::string text = counted(capacity);
  EXPECT_EQ(mine->put(text.data(), capacity), capacity);
  EXPECT_EQ(taken(*one, 0, capacity), text);
  EXPECT_EQ(mine->put(text.data(), 1), 0) << "the second reader has read nothing";
  EXPECT_EQ(mine->unread_by(1), 0);
  EXPECT_EQ(mine->unread_by(2), capacity);
  EXPECT_EQ(two->take(0, nullptr, 100), 100) << "skipped";
  EXPECT_EQ(mine->put(text.data(), 200), 100);
  EXPECT_EQ(taken(*two, 0, capacity), text.substr(100) + text.substr(0, 100));
  EXPECT_EQ(two->take(0, nullptr, 1), 0) << "nothing is left";
}

TEST(SharedRings, DetectAnEndedProcess) {
  auto mine = SharedRings::create(3, capacity);
  ASSERT_TRUE(mine);
  const auto wait_for_a_signal = [](SharedRings& rings) {
    rings.put("x", 1);
    pause();
    return 0;
  };
  Other one(mine->address(), 1, wait_for_a_signal), two(mine->address(), 2, wait_for_a_signal);
  taken(*mine, 1, 1), taken(*mine, 2, 1);
  ASSERT_TRUE(mine->watch_others());
  EXPECT_FALSE(mine->has_ended(1) || mine->has_ended(2) || mine->has_ended(0));
  kill(one.pid(), SIGKILL);
  for (int i = 0; i < 200 && !mine->has_ended(1); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(mine->has_ended(1)) << "before any waitpid";
  EXPECT_FALSE(mine->has_ended(2));
}

TEST(SharedRings, WakeSleepersWhenAProcessHangsUp) {
  auto mine = SharedRings::create(2, capacity);
  ASSERT_TRUE(mine);
  auto other = SharedRings::attach(mine->address(), 1);
  ASSERT_TRUE(other);
  const uint32_t seen = mine->changes();
  std::thread later([&] { other->hang_up(); });
  const auto begun = std::chrono::steady_clock::now();
  while (!mine->is_hung_up()) mine->sleep(seen, std::chrono::seconds(20));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  later.join();
}

TEST(SharedRings, RefuseAnAddressThatIsNotTheirs) {
  auto mine = SharedRings::create(2, capacity);
  ASSERT_TRUE(mine);
  const std::string address = mine->address(), place = address.substr(0, address.rfind(' '));
  EXPECT_FALSE(SharedRings::attach(place + " 1", 1)) << "another memory with the same number";
  EXPECT_FALSE(SharedRings::attach(address, 2)) << "beyond the number of processes";
  EXPECT_FALSE(SharedRings::attach(std::to_string(getpid()) + " 0 1", 1)) << "an unrelated file";
  EXPECT_FALSE(SharedRings::attach("4194305 3 1", 1)) << "no process has this number";
  EXPECT_FALSE(SharedRings::attach("none", 1));
}

}  // namespace
}  // namespace wmtp
