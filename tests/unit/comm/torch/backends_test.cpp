// Exchanges among 2 to 4 ranks, through shared memory as on one host and through sockets as between hosts.
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/torch/shared_memory_backend.hpp"
#include "support/ranks.hpp"
#include "support/refusal.hpp"

namespace wmtp::test {
namespace {

using at::Tensor;

/// Creates `wanted`'s backend; fails the test if that is a different one.
MakeBackend only_memory() {
  return shared_memory_or([](const auto&, const RankAxis&, auto) -> c10::intrusive_ptr<c10d::Backend> {
    throw std::runtime_error("the ranks of this test share no memory");
  });
}

/// This rank's input: different on every rank and at every position.
Tensor words_of(int rank, int64_t count, at::ScalarType type = at::kFloat) {
  return (at::arange(count) * 7 + rank * 1000003).to(type);
}

Tensor gathered(Channel& channel, int size, const Tensor& mine) {
  Tensor all = at::full({size * mine.numel()}, -1, mine.options());
  channel.all_gather(all, mine, "gathering").wait();
  return all;
}

Tensor gathered(Channel& channel, const Tensor& mine) {
  Tensor all = at::full(mine.sizes(), -1, mine.options());
  channel.all_to_all(all, mine, "telling").wait();
  return all;
}

MakeBackend backend_named(const std::string& name) { return name == "memory" ? only_memory() : gloo("127.0.0.1"); }

class Backends : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void on_all_ranks(const std::function<void(Channels&)>& body) const {
    const auto& [backend, ranks] = GetParam();
    on_ranks(ranks, body, backend_named(backend));
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Backends,
                         testing::Combine(testing::Values("memory", "sockets"), testing::Values(2, 3, 4)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::to_string(std::get<1>(test.param));
                         });

// Sizes of a rank's part: nothing, one element, and more than the rings or the buffers of sockets hold.
constexpr int64_t counts[] = {0, 1, 1000, 1234567};

TEST_P(Backends, AllGatherOnEveryRank) {
  const auto body = [](Channels& channels) {
    for (const int64_t count : counts)
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kByte}) {
        std::vector<Tensor> wanted;
        for (int rank = 0; rank < channels.size(); ++rank) wanted.push_back(words_of(rank, count, type));
        const Tensor all = gathered(*channels.mesh(channels.size()).shard.gather_channel, channels.size(),
                                    words_of(channels.rank(), count, type));
        EXPECT_TRUE(at::equal(all, at::cat(wanted))) << count << " of rank " << channels.rank();
      }
  };
  on_all_ranks(body);
}

TEST_P(Backends, ExchangeAllToAll) {
  const auto body = [](Channels& channels) {
    const int size = channels.size(), rank = channels.rank();
    for (const int64_t count : counts) {
      std::vector<Tensor> wanted;
      for (int source = 0; source < size; ++source)
        wanted.push_back(words_of(source, size * count).narrow(0, rank * count, count));
      const Tensor all = gathered(*channels.mesh(size).shard.reduce_channel, words_of(rank, size * count));
      EXPECT_TRUE(at::equal(all, at::cat(wanted))) << count << " of rank " << rank;
    }
  };
  on_all_ranks(body);
}

TEST_P(Backends, RunSeveralOperationsInAnyOrderOfWaits) {
  const auto body = [](Channels& channels) {
    const int size = channels.size(), rank = channels.rank();
    Channel& channel = *channels.mesh(size).shard.reduce_channel;
    constexpr int64_t large = 1 << 20;
    std::vector<Tensor> all;
    std::vector<Pending> under_way;
    for (int64_t i = 0; i < 4; ++i) {
      const Tensor mine = words_of(rank + int(i), i % 2 == 0 ? size * large : size);
      all.push_back(at::zeros_like(mine));
      under_way.push_back(channel.all_to_all(all.back(), mine, "exchange " + std::to_string(i)));
    }
    for (const size_t i : {2, 0, 3, 1}) {
      under_way[i].wait();
      const int64_t part = all[i].numel() / size;
      for (int source = 0; source < size; ++source)
        EXPECT_TRUE(at::equal(all[i].narrow(0, source * part, part),
                              words_of(source + int(i), size * part).narrow(0, rank * part, part)));
    }
  };
  on_all_ranks(body);
}

TEST_P(Backends, WaitForLateRanks) {
  const auto body = [](Channels& channels) {
    const Mesh& mesh = channels.mesh(channels.size());
    for (int i = 0; i < 30; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds((channels.rank() * 7919 + i * 104729) % 3000));
      std::vector<Tensor> wanted;
      for (int rank = 0; rank < channels.size(); ++rank) wanted.push_back(words_of(rank + i, 4096 * (i % 5)));
      const Tensor mine = wanted[size_t(channels.rank())];
      EXPECT_TRUE(at::equal(gathered(*mesh.shard.gather_channel, channels.size(), mine), at::cat(wanted))) << i;
    }
  };
  on_all_ranks(body);
}

class BackendFaults : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Through, BackendFaults, testing::Values("memory", "sockets"),
                         [](const auto& test) { return test.param; });

TEST_P(BackendFaults, AMissingRankIsNamedAfterTheTimeout) {
  const auto body = [](Channels& channels) {
    channels.set_timeout(std::chrono::milliseconds(300));
    if (channels.rank() == 1) return std::this_thread::sleep_for(std::chrono::seconds(3));
    EXPECT_SAYS(
        refusal(ExitStatus::peer, [&] { gathered(*channels.mesh(2).shard.gather_channel, 2, at::zeros({10})); }),
        "rank 1 did not answer");
  };
  on_ranks(2, body, backend_named(GetParam()));
}

TEST_P(BackendFaults, ARankThatHangsUpEndsTheOthersWait) {
  const auto body = [](Channels& channels) {
    if (channels.rank() == 1) {
      const Error fault(ExitStatus::guard, "the loss is not finite");
      channels.peers().post_fault(fault);
      throw fault;
    }
    refusal(ExitStatus::guard, [&] { gathered(*channels.mesh(2).shard.gather_channel, 2, at::zeros({10})); });
  };
  EXPECT_THROW(on_ranks(2, body, backend_named(GetParam())), Error) << "rank 1 has failed";
}

}  // namespace
}  // namespace wmtp::test
