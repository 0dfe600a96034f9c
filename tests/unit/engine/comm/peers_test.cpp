// How ranks of a job learn that another one is gone. Two ranks are threads here.
#include "engine/comm/peers.hpp"

#include <gtest/gtest.h>

#include <future>

#include "support/rank_of.hpp"
#include "support/ranks.hpp"

namespace wmtp::test {
namespace {

using namespace std::chrono_literals;

TEST(Peers, NameALostRankInsteadOfWaitingForItsText) {
  const int port = free_port();
  auto other = std::async(std::launch::async, [&] {
    Peers peers(rank_of(1, port), 5s);
    peers.gather("the first", "of rank 1");
  });
  Peers peers(rank_of(0, port), 5s);
  other.get();
  EXPECT_EQ(peers.gather("the first", "of rank 0"), (std::vector<std::string>{"of rank 0", "of rank 1"}))
      << "a text set before it left is received";
  try {
    peers.gather("the second", "of rank 0");
    ADD_FAILURE() << "a text was received";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::peer);
    EXPECT_STREQ(error.what(), "rank 0: the second failed: rank 1 did not answer");
  }
}

TEST(Peers, NameRankZeroWhenTheStoreIsGone) {
  const int port = free_port();
  std::promise<void> met;
  auto rank0 = std::async(std::launch::async, [&] {
    Peers peers(rank_of(0, port), 5s);
    met.get_future().wait();
  });
  Peers peers(rank_of(1, port), 5s);
  met.set_value();
  rank0.get();
  try {
    peers.gather("the end", "of rank 1");
    ADD_FAILURE() << "the store accepted it";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::peer);
    EXPECT_STREQ(error.what(), "rank 1: the end failed: rank 0, which serves the rendezvous, is gone");
  }
}

}  // namespace
}  // namespace wmtp::test
