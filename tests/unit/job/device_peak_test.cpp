#include "job/device_peak.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

TEST(DevicePeak, IsOfTheVariantAndThePrecision) {
  EXPECT_EQ(stated_peak("NVIDIA H200", Precision::bf16), 989.4e12);
  EXPECT_EQ(stated_peak("NVIDIA H100 PCIe", Precision::fp16), 756e12);
  EXPECT_EQ(stated_peak("NVIDIA A100-SXM4-80GB", Precision::fp32), 19.5e12);
  EXPECT_EQ(stated_peak("NVIDIA L40S", Precision::bf16), 362e12) << "not an L4";
  EXPECT_EQ(stated_peak("NVIDIA GH200 480GB", Precision::bf16), 989.4e12);
}

TEST(DevicePeak, IsZeroForAnUnknownDevice) { EXPECT_EQ(stated_peak("NVIDIA GeForce GTX 1080", Precision::bf16), 0); }

}  // namespace
}  // namespace wmtp
