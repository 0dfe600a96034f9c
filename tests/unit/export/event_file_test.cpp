// Records of event files, byte for byte; tests/e2e/export_test.py opens them with TensorBoard.
#include "export/event_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "export/protobuf.hpp"

namespace wmtp {
namespace {

std::string bytes_of(std::initializer_list<int> values) {
  std::string bytes;
  for (int value : values) bytes += char(value);
  return bytes;
}

TEST(ProtoMessage, WritesTheWireFormatOfTheSpecification) {
  EXPECT_EQ(ProtoMessage().integer(1, 150).encoded(), bytes_of({0x08, 0x96, 0x01}));
  EXPECT_EQ(ProtoMessage().bytes(2, "testing").encoded(), bytes_of({0x12, 0x07}) + "testing");
  EXPECT_EQ(ProtoMessage().message(3, ProtoMessage().integer(1, 150)).encoded(),
            bytes_of({0x1a, 0x03, 0x08, 0x96, 0x01}));
  EXPECT_EQ(ProtoMessage().fp32(2, 1.0f).encoded(), bytes_of({0x15, 0, 0, 0x80, 0x3f}));
  EXPECT_EQ(ProtoMessage().fp64(1, 1.0).encoded(), bytes_of({0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f}));
  EXPECT_EQ(ProtoMessage().integer(16, -1).encoded().size(), 2u + 10u);
}

TEST(MaskedSum, IsTheRotatedSumAndAConstant) {
  // crc32c("123456789") is 0xe3069283.
  EXPECT_EQ(masked_crc32c("123456789"), ((0xe3069283u >> 15) | (0xe3069283u << 17)) + 0xa282ead8u);
}

class EventFileTest : public testing::Test {
 protected:
  EventFileTest() {
    std::string pattern = testing::TempDir() + "events-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~EventFileTest() override { std::filesystem::remove_all(folder_); }

  std::string content(const std::filesystem::path& file) const {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  /// The payloads, each sum checked.
  static std::vector<std::string> payloads(std::string_view bytes) {
    std::vector<std::string> found;
    while (!bytes.empty()) {
      uint64_t length = 0;
      uint32_t length_sum = 0, sum = 0;
      if (bytes.size() < 16) throw std::runtime_error("torn record");
      std::memcpy(&length, bytes.data(), 8);
      std::memcpy(&length_sum, bytes.data() + 8, 4);
      if (bytes.size() < 16 + length) throw std::runtime_error("torn record");
      std::memcpy(&sum, bytes.data() + 12 + length, 4);
      EXPECT_EQ(length_sum, masked_crc32c(bytes.substr(0, 8)));
      EXPECT_EQ(sum, masked_crc32c(bytes.substr(12, length)));
      found.emplace_back(bytes.substr(12, length));
      bytes.remove_prefix(16 + length);
    }
    return found;
  }

  std::filesystem::path folder_;
};

TEST_F(EventFileTest, BeginsWithItsVersionAndHasCompleteRecordsAfterEachFlush) {
  const auto path = folder_ / event_file_name(1'700'000'000'000'000'000, "3");
  EXPECT_EQ(path.filename(), "events.out.tfevents.1700000000.wmtp-host.3");
  EventFile file(path, 1'700'000'000'000'000'000);
  file.flush();
  EXPECT_EQ(payloads(content(path)).size(), 1u);
  EXPECT_NE(payloads(content(path))[0].find("brain.Event:2"), std::string::npos);
  file.scalar(1'700'000'000'500'000'000, 7, "train/loss", 2.5);
  file.scalar(1'700'000'000'500'000'000, 8, "train/loss", std::numeric_limits<double>::quiet_NaN());
  file.finish();
  const auto records = payloads(content(path));
  ASSERT_EQ(records.size(), 3u);
  ProtoMessage value, values, event;
  value.bytes(1, "train/loss").fp32(2, 2.5f);
  values.message(1, value);
  event.fp64(1, 1700000000.5).integer(2, 7).message(5, values);
  EXPECT_EQ(records[1], event.encoded());
}

TEST_F(EventFileTest, NeverOverwritesAnother) {
  const auto path = folder_ / "events";
  EventFile first(path, 0);
  EXPECT_THROW(EventFile(path, 0), Error);
}

}  // namespace
}  // namespace wmtp
