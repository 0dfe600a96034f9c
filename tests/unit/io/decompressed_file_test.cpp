#include "io/decompressed_file.hpp"

#include "support/data_fixture.hpp"
#include "support/packed.hpp"

namespace wmtp {
namespace {

class Unpacking : public DataTest {
 protected:
  /// The content, read in portions of `count` bytes.
  std::string unpacked(const std::string& bytes, size_t count = 1000) const {
    DecompressedFile file(write("file", bytes));
    std::string text, portion(count, '\0');
    while (const size_t got = file.read(portion.data(), count)) text.append(portion, 0, got);
    return text;
  }
  std::string refused(const std::string& bytes) const {
    return error_of(ExitStatus::data, [&] { unpacked(bytes, 1 << 20); });
  }
};

/// Text that packs to about half its size.
std::string varied(size_t bytes) {
  std::string text;
  uint32_t state = 1;
  while (text.size() < bytes) text += std::to_string(state = state * 1664525 + 1013904223) + "\n";
  return text;
}

TEST_F(Unpacking, ReadsPlainGzipAndZstdFilesByTheirFirstBytes) {
  const std::string text = varied(3 << 20);
  for (const auto& bytes : {text, gzip(text), zstd(text)}) EXPECT_TRUE(unpacked(bytes, 4097) == text);
  EXPECT_EQ(unpacked(""), "");
  EXPECT_EQ(unpacked(gzip("")), "");
  EXPECT_EQ(unpacked(zstd("")), "");
  EXPECT_EQ(unpacked("\x1f"), "\x1f");
}

TEST_F(Unpacking, ReadsAllMembersAndFramesOfAFile) {
  EXPECT_EQ(unpacked(gzip("one ") + gzip("") + gzip("two")), "one two");
  const std::string skippable("\x50\x2a\x4d\x18\x03\0\0\0abc", 11);  // before each frame of pzstd
  EXPECT_EQ(unpacked(skippable + zstd("one ") + skippable + zstd("two")), "one two");
  const std::string text = varied(4 << 20), first = gzip(text);
  ASSERT_GT(first.size(), size_t{1} << 20) << "longer than a piece of the file";
  EXPECT_TRUE(unpacked(first + gzip("end")) == text + "end");
}

TEST_F(Unpacking, RefusesAFileThatEndsEarlyOrIsDamaged) {
  const std::string text = varied(100000);
  for (const auto& [packed, name] : {std::pair(gzip(text), "gzip"), std::pair(zstd(text), "zstd")}) {
    for (const size_t length : {size_t{5}, packed.size() / 2, packed.size() - 1}) {
      const std::string message = refused(packed.substr(0, length));
      EXPECT_TRUE(has(message, at("file") + ": found a truncated " + name + " file") && has(message, " -t "))
          << message;
    }
    std::string damaged = packed;
    damaged[damaged.size() / 2] = char(~damaged[damaged.size() / 2]);
    EXPECT_TRUE(has(refused(damaged), std::string(name) + " data that cannot be unpacked, near byte ")) << name;
    std::string checksum = packed;  // gzip's is followed by the size
    checksum[checksum.size() - 5] = char(~checksum[checksum.size() - 5]);
    EXPECT_TRUE(has(refused(checksum), "cannot be unpacked")) << name;
    EXPECT_TRUE(has(refused(packed + "more"), "cannot be unpacked")) << name;
  }
}

TEST_F(Unpacking, RefusesMoreThan64MebibytesAnd200TimesTheFile) {
  const std::string zeros(65 << 20, '\0');
  for (const std::string& bomb : {gzip(zeros), zstd(zeros)}) {
    const std::string message = refused(bomb);
    EXPECT_TRUE(has(message, "unpacks to more than 64.0 MiB") && has(message, "unpack it first")) << message;
  }
  EXPECT_EQ(unpacked(gzip(zeros.substr(2 << 20)), 1 << 20).size(), size_t{63} << 20);
  const std::string noise = varied(2 << 20), good = zstd(noise) + zstd(zeros) + zstd(zeros);
  ASSERT_GT(good.size() * 200, 132u << 20) << "its size allows more than 64 MiB";
  EXPECT_EQ(unpacked(good, 1 << 20).size(), noise.size() + 2 * zeros.size());
}

TEST_F(Unpacking, RefusesAZstdWindowOfMoreThan128MebibytesBeforeItIsAllocated) {
  const std::string message = refused(zstd(varied(1000), 28));
  EXPECT_TRUE(has(message, "window is larger than 128 MiB") && has(message, "zstd -d --long=31 < " + at("file")))
      << message;
  EXPECT_EQ(unpacked(zstd("text", 27)), "text");
}

TEST_F(Unpacking, SkipsToTheEndAtMost) {
  for (const std::string& bytes : {std::string("0123456789"), gzip("0123456789")}) {
    DecompressedFile file(write("file", bytes));
    char text[3];
    EXPECT_EQ(file.skip(4), 4);
    EXPECT_EQ(file.read(text, 3), 3u);
    EXPECT_EQ(std::string(text, 3), "456");
    EXPECT_EQ(file.skip(100), 3);
    EXPECT_EQ(file.read(text, 3), 0u);
  }
}

}  // namespace
}  // namespace wmtp
