// The store on real files, with real processes: a damaged record reads as written or as
// missing.
#include "step/signal_store.hpp"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/crc32c.hpp"
#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

using Values = std::vector<float>;

Values values_of(int64_t window, size_t count, float version = 0) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = version + float(window) + float(i) / 7;
  return values;
}

bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class SignalFiles : public DataTest {
 protected:
  static constexpr size_t size = 6;
  static constexpr size_t record = (size + 1) * sizeof(float);

  SignalStore open(const std::string& key = "model a, data b", size_t count = size) {
    return {folder_ / "signals", key, int64_t(count), [this](const std::string& text) { messages_.push_back(text); }};
  }
  static bool holds(const SignalStore& store, int64_t window, const Values& expected) {
    Values values(expected.size());
    return store.read(window, values.data()) && same_bits(values, expected);
  }
  static bool knows(const SignalStore& store, int64_t window, size_t count = size) {
    Values values(count);
    return store.read(window, values.data());
  }
  static void put(SignalStore& store, int64_t window, float version = 0, size_t count = size) {
    store.write(window, values_of(window, count, version).data());
  }
  static void overwrite(const std::filesystem::path& file, size_t at, const std::string& bytes) {
    std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(std::streamoff(at)) << bytes;
  }
  /// With a header that fits in one unit.
  static constexpr size_t header = 4096;

  /// Runs in a child process; its exit status.
  template <class Body>
  static int in_child(Body body) {
    const pid_t child = start_child(body);
    return wait_for(child);
  }
  template <class Body>
  static pid_t start_child(Body body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    return child;
  }
  static int wait_for(pid_t child) {
    int status = 0;
    if (waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  std::vector<std::string> messages_;
};

TEST_F(SignalFiles, ReturnTheWrittenBitsAlsoInTheNextRun) {
  const Values odd = {0.0F, -0.0F, INFINITY, NAN, 1e-45F, -3.5F};
  {
    SignalStore store = open();
    store.write(3, odd.data());
    put(store, 0);
    EXPECT_TRUE(holds(store, 3, odd));
  }
  const SignalStore store = open();
  EXPECT_TRUE(holds(store, 3, odd));
  EXPECT_TRUE(holds(store, 0, values_of(0, size)));
  EXPECT_TRUE(messages_.empty());
}

TEST_F(SignalFiles, HaveNoRecordOfOtherWindows) {
  SignalStore store = open();
  EXPECT_FALSE(knows(store, 0)) << "an empty file";
  put(store, 5);
  for (const int64_t window : {0, 1, 4, 6, 7, 1'000'000}) EXPECT_FALSE(knows(store, window)) << window;
}

TEST_F(SignalFiles, KeepTheLastRecord) {
  SignalStore store = open();
  put(store, 1, 10);
  put(store, 1, 20);
  EXPECT_TRUE(holds(store, 1, values_of(1, size, 20)));
}

TEST_F(SignalFiles, OfAnotherKeyOrSizeAreSeparate) {
  SignalStore store = open("a");
  put(store, 0);
  EXPECT_FALSE(knows(open("b"), 0));
  EXPECT_FALSE(knows(open("a", 3), 0, 3));
  EXPECT_FALSE(knows(open("a" + std::string(9000, 'k')), 0)) << "a key longer than a unit of the header";
  EXPECT_TRUE(holds(open("a"), 0, values_of(0, size)));
  EXPECT_TRUE(messages_.empty());
}

TEST_F(SignalFiles, DescribeThemselvesInTheHeader) {
  const SignalStore store = open("reference abc, data def");
  const std::string text = read(store.file());
  EXPECT_EQ(text.size(), header);
  EXPECT_NE(text.find("values per window: 6\nreference abc, data def\n"), std::string::npos) << text;
}

TEST_F(SignalFiles, DetectEveryFlippedBitOfARecord) {
  SignalStore store = open();
  put(store, 1);
  put(store, 2);
  const std::string bytes = read(store.file()).substr(header + 2 * record, record);
  for (size_t bit = 0; bit < 8 * record; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << bit % 8));
    overwrite(store.file(), header + 2 * record, flipped);
    EXPECT_FALSE(knows(store, 2)) << "bit " << bit;
  }
  overwrite(store.file(), header + 2 * record, bytes);
  EXPECT_TRUE(holds(store, 2, values_of(2, size)));
  EXPECT_TRUE(holds(store, 1, values_of(1, size)));
}

TEST_F(SignalFiles, DetectARecordThatIsTornAtAnyByte) {
  SignalStore store = open();
  put(store, 2, 100);
  const std::string old = read(store.file()).substr(header + 2 * record);
  put(store, 2, 200);
  const std::string fresh = read(store.file()).substr(header + 2 * record);
  for (size_t cut = 0; cut <= record; ++cut) {
    const std::string torn = fresh.substr(0, cut) + old.substr(cut);
    overwrite(store.file(), header + 2 * record, torn);
    EXPECT_EQ(knows(store, 2), torn == old || torn == fresh) << "at byte " << cut;
    const std::string with_hole = fresh.substr(0, cut) + std::string(record - cut, '\0');
    overwrite(store.file(), header + 2 * record, with_hole);
    EXPECT_EQ(knows(store, 2), with_hole == fresh) << "zeros from byte " << cut;
  }
  for (size_t cut = 0; cut < record; ++cut) {
    std::filesystem::resize_file(store.file(), header + 3 * record - cut - 1);
    EXPECT_FALSE(knows(store, 2)) << "cut " << cut;
  }
}

TEST_F(SignalFiles, RejectTheRecordOfAnotherWindowOrKey) {
  SignalStore store = open("a"), other = open("b");
  put(store, 1);
  put(store, 2);
  put(other, 1);
  const std::string of_one = read(store.file()).substr(header + record, record);
  overwrite(store.file(), header + 2 * record, of_one);
  EXPECT_FALSE(knows(store, 2));
  overwrite(other.file(), header + record, of_one);
  EXPECT_FALSE(knows(other, 1));
}

/// The window below 2^32 whose record of one value 0 has the checksum 0: checksums are linear over bits, so solve for
/// it.
int64_t window_of_zero_sum(const std::string& header_bytes) {
  const auto sum = [&](int64_t window) {
    const float zero = 0;
    return crc32c(&zero, sizeof zero, crc32c(&window, sizeof window, crc32c(header_bytes.data(), header_bytes.size())));
  };
  uint32_t left = sum(0), window = 0;
  std::vector<std::pair<uint32_t, uint32_t>> rows;  // the change by a choice of window bits, and the choice
  for (int bit = 0; bit < 32; ++bit) {
    uint32_t change = sum(int64_t{1} << bit) ^ sum(0), choice = 1U << bit;
    for (const auto& [of, bits] : rows)
      if ((change ^ of) < change) change ^= of, choice ^= bits;
    rows.emplace_back(change, choice);
    for (size_t i = rows.size() - 1; i > 0 && rows[i].first > rows[i - 1].first; --i) std::swap(rows[i], rows[i - 1]);
  }
  for (const auto& [of, bits] : rows)
    if ((left ^ of) < left) left ^= of, window ^= bits;
  EXPECT_EQ(sum(window), 0U);
  return window;
}

TEST_F(SignalFiles, RejectAHoleEvenIfTheChecksumWouldBeZero) {
  SignalStore store = open("a", 1);
  const int64_t window = window_of_zero_sum(read(store.file()));
  put(store, window + 1, 0, 1);
  EXPECT_FALSE(knows(store, window, 1));
  store.write(window, Values{0}.data());
  EXPECT_TRUE(holds(store, window, {0}));
}

TEST_F(SignalFiles, TakeNoSpaceForUnseenWindows) {
  SignalStore store = open();
  put(store, 0);
  put(store, int64_t{1} << 32);
  struct stat status {};
  ASSERT_EQ(stat(store.file().c_str(), &status), 0);
  EXPECT_GT(status.st_size, int64_t{100} << 30);
  EXPECT_LT(status.st_blocks * 512, 64 << 10);
  EXPECT_TRUE(holds(store, int64_t{1} << 32, values_of(int64_t{1} << 32, size)));
}

TEST_F(SignalFiles, AreWrittenByFourProcessesConcurrently) {
  constexpr int processes = 4, own = 200, rounds = 300;
  constexpr int64_t shared = 3;
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p)
    children.push_back(start_child([&, p] {
      SignalStore store = open();
      for (int i = 0; i < own; ++i) put(store, 1000 + i * processes + p);
      for (int i = 0; i < rounds; ++i) {
        put(store, shared, 1000 * float(p));
        Values values(size);
        if (!store.read(shared, values.data())) continue;
        bool whole = false;
        for (int q = 0; q < processes; ++q)
          whole = whole || same_bits(values, values_of(shared, size, 1000 * float(q)));
        if (!whole) return 2;
      }
      return messages_.empty() ? 0 : 3;
    }));
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  const SignalStore store = open();
  for (int64_t window = 1000; window < 1000 + own * processes; ++window)
    EXPECT_TRUE(holds(store, window, values_of(window, size))) << window;
}

TEST_F(SignalFiles, KeepReadingWhenTheDiskIsFull) {
  std::filesystem::create_directory(folder_ / "signals");
  const int status = in_child([&] {
    // A file system of 64 KiB that only this process sees.
    if (unshare(CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", at("signals").c_str(), "tmpfs", 0, "size=64k") != 0)
      return 77;
    SignalStore store = open();
    int64_t window = 0;
    for (; messages_.empty() && window < 100'000; ++window) put(store, window);
    if (messages_.size() != 1 || messages_[0].find("No space left") == std::string::npos) return 2;
    for (int64_t next = window; next < window + 9; ++next) put(store, next);
    if (messages_.size() != 1) return 3;
    for (int64_t known = 0; known < window - 1; ++known)
      if (!holds(store, known, values_of(known, size))) return 4;
    return knows(store, window - 1) || knows(store, window) ? 5 : 0;
  });
  if (status == 77) GTEST_SKIP() << "no file system can be mounted here";
  EXPECT_EQ(status, 0);
}

TEST_F(SignalFiles, StopAtTheFileSizeLimitWithoutASignal) {
  EXPECT_EQ(in_child([&] {
              const rlimit limit{header + 2 * record, header + 2 * record};
              setrlimit(RLIMIT_FSIZE, &limit);
              SignalStore store = open();
              put(store, 1);
              put(store, 2);
              put(store, 0);
              if (messages_.size() != 1 || messages_[0].find("File too large") == std::string::npos) return 2;
              return holds(store, 1, values_of(1, size)) && !knows(store, 2) && !knows(store, 0) ? 0 : 3;
            }),
            0);
}

TEST_F(SignalFiles, AreReadFromAReadOnlyFile) {
  {
    SignalStore store = open();
    put(store, 1);
    chmod(store.file().c_str(), 0444);
    chmod((folder_ / "signals").c_str(), 0555);
    chmod(folder_.c_str(), 0755);
  }
  EXPECT_EQ(in_child([&] {
              if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 2;
              SignalStore store = open();
              put(store, 2);
              if (messages_.size() != 1 || messages_[0].find("Permission denied") == std::string::npos) return 3;
              if (!holds(store, 1, values_of(1, size)) || knows(store, 2)) return 4;
              SignalStore fresh = open("another key");  // there is no file, and none can be created
              put(fresh, 1);
              return messages_.size() == 2 && !knows(fresh, 1) ? 0 : 5;
            }),
            0);
  chmod((folder_ / "signals").c_str(), 0755);
}

TEST_F(SignalFiles, AreNotCachedWithoutAFolder) {
  write("signals", "a file");
  SignalStore store = open();
  put(store, 1);
  EXPECT_FALSE(knows(store, 1));
  ASSERT_EQ(messages_.size(), 1U);
  EXPECT_NE(messages_[0].find(store.file().string()), std::string::npos) << messages_[0];
}

TEST_F(SignalFiles, WithADamagedHeaderAreNotTouched) {
  std::filesystem::path file;
  {
    SignalStore store = open();
    put(store, 1);
    file = store.file();
  }
  const std::string whole = read(file);
  const size_t last = whole.find('\0') - 1;
  for (const size_t at : {size_t{0}, size_t{14}, last - 1, last + 1, header - 1}) {
    messages_.clear();
    overwrite(file, at, "#");
    {
      SignalStore store = open();
      put(store, 2);
      EXPECT_FALSE(knows(store, 1) || knows(store, 2));
      ASSERT_EQ(messages_.size(), 1U) << at;
      EXPECT_NE(messages_[0].find(file.string() + " has a different header"), std::string::npos) << messages_[0];
    }
    EXPECT_EQ(read(file).size(), whole.size());
    overwrite(file, at, whole.substr(at, 1));
  }
  EXPECT_TRUE(holds(open(), 1, values_of(1, size)));
}

TEST_F(SignalFiles, CompleteAHeaderOfAKilledProcess) {
  const auto file = open().file();
  const std::string whole = read(file);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{20}, size_t{60}, header - 1}) {
    for (const bool zeros : {false, true}) {
      std::ofstream(file, std::ios::binary) << whole.substr(0, cut) + std::string(zeros ? header - cut : 0, '\0');
      SignalStore store = open();
      put(store, 1);
      EXPECT_TRUE(holds(store, 1, values_of(1, size)));
      EXPECT_EQ(read(file).substr(0, header), whole);
    }
  }
  EXPECT_TRUE(messages_.empty());
}

TEST_F(SignalFiles, AreOnlyRegularFiles) {
  const auto file = open().file();
  std::filesystem::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  SignalStore store = open();
  put(store, 1);
  EXPECT_FALSE(knows(store, 1));
  ASSERT_EQ(messages_.size(), 1U);
  EXPECT_NE(messages_[0].find("not a regular file"), std::string::npos) << messages_[0];
}

TEST_F(SignalFiles, RefuseInvalidWindows) {
  SignalStore store = open();
  Values values(size);
  EXPECT_THROW(store.read(-1, values.data()), Error);
  EXPECT_THROW(store.write(int64_t{1} << 40, values.data()), Error);
  EXPECT_THROW(open("a", 0), Error);
}

}  // namespace
}  // namespace wmtp
