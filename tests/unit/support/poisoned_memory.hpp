// In a program that includes this, new tensors are filled with NaN instead of arbitrary memory, which is often zero:
// elements that are never written are detected.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace wmtp::test {

class PoisonedMemory : public testing::Environment {
 public:
  void SetUp() override {
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    at::globalContext().setDeterministicFillUninitializedMemory(true);
    ASSERT_TRUE(at::empty({3}).isnan().all().item<bool>());
  }
};

inline testing::Environment* const poisoned_memory = testing::AddGlobalTestEnvironment(new PoisonedMemory);

}  // namespace wmtp::test
