#include "base/crc32c.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace wmtp {

TEST(Crc32c, MatchesThePublishedCheckValues) {
  EXPECT_EQ(crc32c("123456789", 9), 0xE3069283u);
  EXPECT_EQ(crc32c_by_table("123456789", 9), 0xE3069283u);
  const std::string zeros(32, '\0'), ones(32, '\xff');  // RFC 3720, B.4
  EXPECT_EQ(crc32c(zeros.data(), 32), 0x8A9136AAu);
  EXPECT_EQ(crc32c(ones.data(), 32), 0x62A8AB43u);
  EXPECT_EQ(crc32c("", 0), 0u);
}

TEST(Crc32c, InstructionAndTablesAgreeAtEveryLengthAndAlignment) {
  std::mt19937 random(1);
  std::vector<uint8_t> bytes(64 << 10);
  for (uint8_t& byte : bytes) byte = uint8_t(random());
  for (size_t count = 0; count < 900; ++count) {
    const size_t offset = count % 13;
    ASSERT_EQ(crc32c(bytes.data() + offset, count, 7), crc32c_by_table(bytes.data() + offset, count, 7)) << count;
  }
  for (int i = 0; i < 200; ++i) {
    const size_t offset = random() % 64, count = random() % (bytes.size() - 64);
    ASSERT_EQ(crc32c(bytes.data() + offset, count), crc32c_by_table(bytes.data() + offset, count)) << count;
  }
}

TEST(Crc32c, ContinuesFromThePreviousValue) {
  const std::string text(40'000, 'x');
  const uint32_t whole = crc32c(text.data(), text.size());
  for (const size_t cut : {0, 1, 767, 768, 12'288, 39'999, 40'000})
    EXPECT_EQ(crc32c(text.data() + cut, text.size() - cut, crc32c(text.data(), cut)), whole) << cut;
}

}  // namespace wmtp
