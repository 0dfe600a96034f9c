#include "optimizer/torch/optimizer_state_file.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "memory/allocator.hpp"
#include "support/failing_transfers.hpp"
#include "support/test_folder.hpp"

namespace wmtp::test {
namespace {

using at::Tensor;

constexpr int64_t block = 2048;
const std::vector<int64_t> shards{5 * block + 64, 64, 2 * block};  // the first one is no multiple of a block
const std::vector<VisitedShard> all{{0, 3}, {1, 3}, {2, 3}};

std::unique_ptr<OptimizerStateFile> small_file(const TestFolder& folder, int kept = 3) {
  std::vector<KeptShard> all_shards;
  for (const int64_t elements : shards) all_shards.push_back({elements, kept});
  return std::make_unique<OptimizerStateFile>(OptimizerStateFileOptions{folder.path(), block}, all_shards,
                                              OptimizerStateFileDevice{at::kCPU});
}

/// Different for each shard, kept number and element.
Tensor value_of(size_t shard, size_t kept, int64_t begin, int64_t end) {
  return at::arange(begin, end, at::kFloat) * 8 + float(shard * 4 + kept) * 100'000;
}

TEST(OptimizerStateFile, KeepsBlocksOfEverySize) {
  const TestFolder folder;
  for (const int kept : {1, 2, 3}) {
    const auto file = small_file(folder, kept);
    file->visit(all, BlockAccess::change, [&](size_t shard, int64_t begin, int64_t end, const auto& tensors) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        EXPECT_EQ(tensors[i].count_nonzero().template item<int64_t>(), 0) << "zeros at first";
        Tensor(tensors[i]).copy_(value_of(shard, i, begin, end));
      }
    });
    for (int times = 0; times < 2; ++times) {
      int64_t next = 0, visited = 0;
      file->visit(all, BlockAccess::read, [&](size_t shard, int64_t begin, int64_t end, const auto& tensors) {
        EXPECT_EQ(begin, next) << "in order";
        next = end == shards[shard] ? 0 : end;
        visited += end - begin;
        ASSERT_EQ(tensors.size(), size_t(kept));
        for (size_t i = 0; i < tensors.size(); ++i)
          EXPECT_TRUE(at::equal(tensors[i], value_of(shard, i, begin, end))) << shard << ", " << i << " at " << begin;
      });
      EXPECT_EQ(visited, 7 * block + 128);
    }
  }
}

TEST(OptimizerStateFile, VisitsAndChangesOnlyTheShardsThatAreNamed) {
  const TestFolder folder;
  const auto file = small_file(folder, 1);
  const auto sum_of = [&](const std::vector<VisitedShard>& wanted) {
    double sum = 0;
    file->visit(wanted, BlockAccess::read,
                [&](size_t, int64_t, int64_t, const auto& kept) { sum += kept[0].sum().template item<double>(); });
    return sum;
  };
  const auto fill = [](size_t, int64_t, int64_t, const auto& kept) { Tensor(kept[0]).fill_(1); };
  file->visit({{2, 1}}, BlockAccess::change, fill);
  EXPECT_EQ(sum_of(all), 2 * block);
  EXPECT_EQ(sum_of({{0, 1}, {1, 1}}), 0);
  file->visit({{2, 1}}, BlockAccess::replace, [](size_t, int64_t, int64_t, const auto& kept) {
    EXPECT_EQ(kept[0].count_nonzero().template item<int64_t>(), 0) << "replaced values are not read";
  });
  file->visit({}, BlockAccess::change, fill);
  EXPECT_EQ(sum_of(all), 0);
}

TEST(OptimizerStateFile, VisitsAndChangesOnlyTheFirstNumbersThatAreAskedFor) {
  const TestFolder folder;
  OptimizerStateFile file({folder.path(), block}, {{3 * block, 3}, {block, 0}, {block, 1}}, {at::kCPU});
  const std::vector<VisitedShard> everything{{0, 3}, {1, 3}, {2, 3}};
  const auto fill = [&](const std::vector<VisitedShard>& wanted, BlockAccess access, float value) {
    std::vector<size_t> found(3);
    file.visit(wanted, access, [&](size_t shard, int64_t, int64_t, const auto& kept) {
      found[shard] = kept.size();
      for (const Tensor& one : kept) Tensor(one).fill_(value);
    });
    return found;
  };
  EXPECT_EQ(fill(everything, BlockAccess::change, 1), (std::vector<size_t>{3, 0, 1})) << "not more than are kept";
  EXPECT_EQ(fill({{0, 1}}, BlockAccess::change, 2), (std::vector<size_t>{1, 0, 0}));
  EXPECT_EQ(fill({{0, 2}}, BlockAccess::read, 3), (std::vector<size_t>{2, 0, 0}));
  EXPECT_EQ(fill({{2, 1}}, BlockAccess::replace, 4), (std::vector<size_t>{0, 0, 1}));
  file.visit(everything, BlockAccess::read, [&](size_t shard, int64_t, int64_t, const auto& kept) {
    const std::vector<float> wanted = shard == 0 ? std::vector<float>{2, 1, 1} : std::vector<float>{4};
    for (size_t i = 0; i < kept.size(); ++i)
      EXPECT_TRUE(at::equal(kept[i], at::full_like(kept[i], wanted[i]))) << shard << ", " << i;
  });
}

TEST(OptimizerStateFile, AVisitWaitsForThatOfAnotherThread) {
  const TestFolder folder;
  const auto file = small_file(folder);
  const auto count = [&](int times) {
    for (int i = 0; i < times; ++i)
      file->visit(all, BlockAccess::change, [](size_t, int64_t, int64_t, const auto& kept) {
        for (const Tensor& one : kept) Tensor(one).add_(1);
      });
  };
  std::thread other([&] { count(20); });
  count(20);
  other.join();
  file->visit(all, BlockAccess::read, [](size_t, int64_t, int64_t, const auto& kept) {
    for (const Tensor& one : kept) EXPECT_TRUE(at::equal(one, at::full_like(one, 40)));
  });
}

TEST(OptimizerStateFile, HoldsThreeBlocksInMemory) {
  install_allocator();
  const TestFolder folder;
  const auto live = [] { return memory_usage().live[int(MemoryCategory::optimizer)]; };
  const int64_t before = live();
  const MemoryScope scope(MemoryCategory::optimizer);
  const auto file = small_file(folder);
  EXPECT_EQ(live() - before, 3 * (3 * block * 4 + ReservedFile::alignment));
}

TEST(OptimizerStateFile, AFailureOfTheDiskEndsTheVisitAndNamesTheFolder) {
  const TestFolder folder;
  const auto file = small_file(folder);
  const auto visit = [&](BlockAccess access) {
    return refusal(ExitStatus::storage,
                   [&] { file->visit(all, access, [](size_t, int64_t, int64_t, const std::vector<Tensor>&) {}); });
  };
  for (const int succeed : {0, 1, 4, 8}) {  // of nine blocks
    reads_left = succeed;
    EXPECT_SAYS(visit(BlockAccess::read), "cannot read the optimizer's state from a file in " + folder.path().string());
    writes_left = succeed;
    EXPECT_SAYS(visit(BlockAccess::change),
                "cannot write the optimizer's state to a file in " + folder.path().string());
  }
}

}  // namespace
}  // namespace wmtp::test
