// What the check of a device says without one. (With one that does not exist: tests/null_cuda/device_test.py.)
#include "doctor/torch/device_check.hpp"

#include <gmock/gmock.h>

#include "comm/torch/cuda_backend.hpp"
#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

TEST(DeviceCheck, IsRefusedWithoutADevice) {
  if (has_cuda_device()) GTEST_SKIP() << "this machine has one";
  const std::string text = error_of(ExitStatus::usage, [] { check_device(); });
  EXPECT_TRUE(has(text, "CUDA")) << text;
}

TEST(DeviceRates, AreOfProductsCopiesAndEachKernel) {
  std::vector<std::string> names;
  for (const DeviceRate& rate : device_rates()) names.push_back(rate.what);
  EXPECT_THAT(names, testing::ElementsAre("speed", "copies", "norm speed", "SwiGLU speed", "rotation speed",
                                          "cross entropy speed", "dropout speed", "sum of parts speed"));
}

}  // namespace
}  // namespace wmtp
