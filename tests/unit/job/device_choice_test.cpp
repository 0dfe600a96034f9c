#include "job/device_choice.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(DeviceChoice, EveryLocalRankHasADeviceOfItsOwn) {
  for (const DeviceChoice wanted : {DeviceChoice::automatic, DeviceChoice::cuda}) {
    EXPECT_EQ(choose_device({wanted, 2, 5, 1, 2}), 1);
    EXPECT_EQ(choose_device({wanted, 8, 0, 0, 2}), 0);
  }
  EXPECT_EQ(choose_device({DeviceChoice::cpu, 8, 0, 0, 1}), std::nullopt);
}

TEST(DeviceChoice, AutoTakesTheCpuForAllRanksWhereDevicesAreTooFewAndSaysSo) {
  EXPECT_EQ(choose_device({DeviceChoice::automatic, 0, 0, 0, 1}), std::nullopt);
  EXPECT_EQ(unused_devices_notice({DeviceChoice::automatic, 0, 0, 0, 2}), "")
      << "a host without a device is none to speak of";
  for (int rank : {0, 1}) {
    EXPECT_EQ(choose_device({DeviceChoice::automatic, 1, rank, rank, 2}), std::nullopt);
    EXPECT_THAT(
        unused_devices_notice({DeviceChoice::automatic, 1, rank, rank, 2}),
        AllOf(HasSubstr("2 processes on this host and 1 CUDA device: training on the CPU"), HasSubstr("--nproc 1")));
  }
  EXPECT_EQ(unused_devices_notice({DeviceChoice::automatic, 2, 0, 0, 2}), "");
  EXPECT_EQ(unused_devices_notice({DeviceChoice::cpu, 1, 0, 0, 2}), "");
}

TEST(DeviceChoice, AnExplicitDeviceThatIsNotThereIsRefused) {
  const DeviceRequest absent{DeviceChoice::cuda, 1, 3, 1, 2};
  EXPECT_THAT(
      test::refusal(ExitStatus::usage, [&] { choose_device(absent); }),
      AllOf(HasSubstr("rank 3 wants CUDA device 1, this host has 1 CUDA device;"), HasSubstr("device = \"cpu\"")));
}

}  // namespace
}  // namespace wmtp
