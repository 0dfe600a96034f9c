// How ranks of a job learn that another one is gone. Two ranks are threads here.
#include "comm/torch/peers.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <future>

#include "support/rank_of.hpp"
#include "support/ranks.hpp"
#include "support/refusal.hpp"

namespace wmtp::test {
namespace {

using namespace std::chrono_literals;

TEST(Peers, NameALostRankInsteadOfWaitingForItsText) {
  const Socket held = reserved_loopback_port(0);
  const int port = held.port();
  auto other = std::async(std::launch::async, [&] {
    Peers peers(rank_of(1, port), 5s);
    peers.gather("the first", "of rank 1");
  });
  Peers peers(rank_of(0, port), 5s);
  other.get();
  EXPECT_EQ(peers.gather("the first", "of rank 0"), (std::vector<std::string>{"of rank 0", "of rank 1"}))
      << "a text set before it left is received";
  EXPECT_EQ(refusal(ExitStatus::peer, [&] { peers.gather("the second", "of rank 0"); }),
            "rank 0: the second failed: rank 1 did not answer");
}

TEST(Peers, KeepNoTextThatWasGathered) {
  on_ranks(2, [](Channels& channels) {
    Peers& peers = channels.peers();
    peers.gather("a text", "here");
    peers.broadcast("the first count", "follows");
    const int64_t keys = peers.store()->getNumKeys();
    for (int i = 0; i < 20; ++i) peers.gather("a text", "here");
    if (peers.rank() == 0) {
      EXPECT_LE(peers.store()->getNumKeys(), keys + 1) << "one that rank 1 may have set already";
    }
  });
}

TEST(Peers, NameRankZeroWhenTheStoreIsGone) {
  const Socket held = reserved_loopback_port(0);
  const int port = held.port();
  std::promise<void> met;
  auto rank0 = std::async(std::launch::async, [&] {
    Peers peers(rank_of(0, port), 5s);
    met.get_future().wait();
  });
  Peers peers(rank_of(1, port), 5s);
  met.set_value();
  rank0.get();
  EXPECT_EQ(refusal(ExitStatus::peer, [&] { peers.gather("the end", "of rank 1"); }),
            "rank 1: the end failed: rank 0, which serves the rendezvous, is gone");
}

TEST(Peers, NameEveryInputThatARankLacksOrHasDifferentlyOnEveryRank) {
  const Error absent(ExitStatus::data, "there is no x.bin");
  const std::vector<std::vector<Peers::Input>> inputs{
      {{"experiment", "1111", {}}, {"data", "2222", {}}, {"pipeline", "3333", {}}},
      {{"experiment", "1111", {}}, {"data", "", absent}, {"pipeline", "4444", {}}},
      {{"experiment", "1111", {}}, {"data", "", absent}, {"pipeline", "3333", {}}, {"adapter", "5555", {}}}};
  on_ranks(3, [&](Channels& channels) {
    channels.peers().check_inputs(inputs[0]);
    const std::string text =
        refusal(ExitStatus::data, [&] { channels.peers().check_inputs(inputs[size_t(channels.rank())]); });
    EXPECT_SAYS(text, "\n  ranks 1, 2 on ");
    EXPECT_SAYS(text, ": data: there is no x.bin\n");
    EXPECT_SAYS(text, ": pipeline: found 4444, wanted 3333 as on rank 0\n");
    EXPECT_EQ(text.find("experiment: found"), std::string::npos) << text;
  });
}

TEST(Peers, RethrowTheFailureOfTheLowestRankOnEveryRankAndNameTheRankUnlessItIsRankZero) {
  for (const int first : {0, 1})
    on_ranks(3, [&](Channels& channels) {
      Peers& peers = channels.peers();
      EXPECT_NO_THROW(peers.rethrow_on_all_ranks("the work", std::nullopt));
      const auto failure = failure_of([&] {
        if (peers.rank() >= first) throw std::runtime_error("no space on " + std::to_string(peers.rank()));
      });
      EXPECT_EQ(refusal(ExitStatus::storage, [&] { peers.rethrow_on_all_ranks("the work", failure); }),
                first == 0 ? "no space on 0" : "rank 1: no space on 1");
    });
}

TEST(Peers, NameTheRankThatWasStartedWithOtherSettings) {
  on_ranks(2, [&](Channels& channels) {
    const Peers::Settings mine{{"--resume", channels.rank() == 0 ? "no" : "yes"}};
    EXPECT_NO_THROW(channels.peers().check_settings({{"--resume", "no"}}));
    EXPECT_EQ(refusal(ExitStatus::usage, [&] { channels.peers().check_settings(mine); }),
              "rank 1: --resume is 'yes' here and 'no' on rank 0; start all ranks with the same settings");
  });
}

}  // namespace
}  // namespace wmtp::test
