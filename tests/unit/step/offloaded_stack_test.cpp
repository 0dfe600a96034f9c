#include "step/offloaded_stack.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.hpp"
#include "memory/allocator.hpp"
#include "support/refusal.hpp"
#include "support/test_folder.hpp"

namespace wmtp {
namespace {

using at::Tensor;

TEST(OffloadedStack, ReturnsTheLastTensorFirstBitForBit) {
  const test::TestFolder folder;
  const auto stack = make_offloaded_stack(at::kCPU, folder.path());
  const std::vector<Tensor> pushed{at::randn({3, 5}), at::randn({7, 2, 3}).to(at::kBFloat16), at::full({4}, NAN),
                                   at::randn({6, 4}).t()};
  for (int step = 0; step < 2; ++step) {  // the second one overwrites what the first one left in the file
    for (const Tensor& one : pushed) stack->push(one);
    stack->wait_for_copies();
    for (size_t i = pushed.size(); i-- > 0;) {
      if (i % 2 == 0) stack->prefetch();
      const Tensor back = stack->pop();
      EXPECT_EQ(back.scalar_type(), pushed[i].scalar_type());
      EXPECT_EQ(back.sizes(), pushed[i].sizes());
      EXPECT_TRUE(at::equal(back.view(at::kByte), pushed[i].contiguous().view(at::kByte))) << i;
    }
  }
}

TEST(OffloadedStack, HoldsNoPushedTensorInMemoryAndNoFileInItsFolder) {
  install_allocator();
  const test::TestFolder folder;
  const auto stack = make_offloaded_stack(at::kCPU, folder.path());
  const auto live_bytes = [] { return memory_usage().live_total; };
  const int64_t before = live_bytes();
  for (int i = 0; i < 3; ++i) stack->push(at::ones({1 << 16}));
  stack->wait_for_copies();
  EXPECT_EQ(live_bytes(), before);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  stack->prefetch();
  EXPECT_EQ(live_bytes(), before + (4 << 16)) << "one tensor at a time comes back";
}

TEST(OffloadedStack, NamesTheFolderWhereItCannotCreateItsFile) {
  EXPECT_SAYS(test::refusal(ExitStatus::storage, [] { make_offloaded_stack(at::kCPU, "/nowhere/at/all"); }),
              "/nowhere/at/all");
}

}  // namespace
}  // namespace wmtp
