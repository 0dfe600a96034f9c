#include "comm/torch/background_store.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "support/ranks.hpp"
#include "support/refusal.hpp"

namespace wmtp::test {
namespace {

TEST(BackgroundStore, ExchangesTextsDuringOtherExchanges) {
  on_ranks(3, [](Channels& channels) {
    const int rank = channels.rank();
    auto background = std::async(std::launch::async, [&] {
      BackgroundStore texts(channels.peers(), "background");
      for (int i = 0; i < 20; ++i) {
        const std::string round = std::to_string(i);
        EXPECT_EQ(texts.broadcast(rank == 0 ? "go " + round : ""), "go " + round);
        const auto all = texts.gather(round + " of " + std::to_string(rank));
        if (rank == 0)
          EXPECT_EQ(all, (std::vector<std::string>{round + " of 0", round + " of 1", round + " of 2"}));
        else
          EXPECT_TRUE(all.empty());
      }
    });
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(channels.sum(at::full({4}, 1.0, at::kDouble), "a sum").sum().item<double>(), 12.0);
      EXPECT_EQ(channels.peers().broadcast("a text", std::to_string(i)), std::to_string(i));
    }
    background.get();
  });
}

TEST(BackgroundStore, DoesNotWaitForARankThatPostedAFault) {
  on_ranks(2, [](Channels& channels) {
    BackgroundStore texts(channels.peers(), "background");
    if (channels.rank() == 0) {  // the fault must not end this test: only rank 1 waits for it
      texts.broadcast("said before");
      channels.peers().store()->set("fault/0", "5 x");
      channels.peers().gather("the fault", "met");
      channels.peers().store()->deleteKey("fault/0");
      return;
    }
    EXPECT_EQ(texts.broadcast(""), "said before");
    while (!channels.peers().has_left(0)) std::this_thread::yield();
    EXPECT_SAYS(refusal(ExitStatus::peer, [&] { texts.broadcast(""); }), "rank 0");
    channels.peers().gather("the fault", "met");
    while (channels.peers().has_left(0)) std::this_thread::yield();
  });
}

}  // namespace
}  // namespace wmtp::test
