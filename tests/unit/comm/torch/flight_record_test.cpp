#include "comm/torch/flight_record.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace wmtp {
namespace {

TEST(FlightRecord, NamesStepPurposeOperationAndSize) {
  FlightRecord record;
  const int64_t early = record.begin("agreeing", "all-gather", 16);
  record.set_step(3);
  const int64_t late = record.begin("reducing the gradient of layers.1", "all-to-all", 3 << 20);
  EXPECT_EQ(record.describe(early), "agreeing (all-gather, 16 B)");
  EXPECT_EQ(record.describe(late), "step 3: reducing the gradient of layers.1 (all-to-all, 3.0 MiB)");
}

TEST(FlightRecord, KeepsTheLastCollectivesAndMarksUnfinishedOnes) {
  FlightRecord record;
  for (int i = 0; i < 300; ++i) {
    record.begin("number " + std::to_string(i), "all-gather", 8);
    if (i != 270) record.end(i);
  }
  record.end(2);  // overwritten: must not end another one
  const std::string text = record.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), FlightRecord::capacity);
  EXPECT_EQ(text.find("number 43 "), std::string::npos);
  EXPECT_NE(text.find("number 44 "), std::string::npos);
  EXPECT_EQ(text.find("unfinished"), text.rfind("unfinished"));
  const size_t line = text.rfind('\n', text.find("number 270 "));
  EXPECT_NE(text.substr(line, text.find("number 270 ") - line).find("unfinished"), std::string::npos) << text;
}

struct WorkOfADevice : c10d::Work {
  bool isCompleted() override { return is_done; }
  void fail() { finish(std::make_exception_ptr(std::runtime_error("timeout"))); }
  bool is_done = false;
};

TEST(FlightRecord, ACollectiveOfADeviceEndsWhenTheDeviceHasDoneIt) {
  FlightRecord record;
  const auto work = c10::make_intrusive<WorkOfADevice>();
  record.end(record.begin("gathering layers.1", "all-gather", 8), work);
  EXPECT_NE(record.text().find("unfinished"), std::string::npos) << "only the thread has gone on";
  work->is_done = true;
  EXPECT_EQ(record.text().find("unfinished"), std::string::npos);
  work->fail();
  EXPECT_NE(record.text().find("unfinished"), std::string::npos) << "it ran out of time";
}

TEST(FlightRecord, HasNoProgressOfADeviceWithoutItsCollectives) {
  FlightRecord record;
  record.end(record.begin("agreeing", "all-gather", 16));
  EXPECT_FALSE(record.device_progress());
}

TEST(FlightRecord, IsWrittenToItsFolderAndNeverThrows) {
  FlightRecord record;
  record.begin("waiting", "all-gather", 8);
  EXPECT_FALSE(record.write(1, record.text()));
  record.set_folder("/proc/none");
  EXPECT_FALSE(record.write(1, record.text()));
  const auto folder = std::filesystem::temp_directory_path() / ("wmtp-flight-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  record.set_folder(folder);
  EXPECT_TRUE(record.write(1, record.text()));
  std::ifstream file(folder / "flight-0001.txt");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove_all(folder);
  EXPECT_NE(text.find(record.text()), std::string::npos) << text;
}

}  // namespace
}  // namespace wmtp
