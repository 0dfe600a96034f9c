#include "comm/torch/job_store.hpp"

#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "comm/torch/store_text.hpp"
#include "support/rank_of.hpp"
#include "support/ranks.hpp"

namespace wmtp::test {
namespace {

using namespace std::chrono_literals;

const auto no_notice = [](const std::string&) {};

TEST(JobStore, BehavesLikeAC10dStore) {
  const Socket held = reserved_loopback_port(0);
  const int port = held.port();
  const JobStore first = open_job_store(rank_of(0, port), 5s, no_notice);
  const JobStore second = open_job_store(rank_of(1, port), 5s, no_notice);
  EXPECT_TRUE(first.server && !second.server);
  EXPECT_EQ(second.own_address, "127.0.0.1");
  const auto store = c10::make_intrusive<c10d::PrefixStore>("group", second.store);
  std::thread late([&] {
    std::this_thread::sleep_for(30ms);
    first.store->set("group/key", text_to_bytes("value"));
  });
  EXPECT_EQ(bytes_to_text(store->get("key")), "value") << "get waits for the key";
  late.join();
  EXPECT_EQ(store->add("sum", 3), 3);
  EXPECT_EQ(bytes_to_text(store->compareSet("key", text_to_bytes("value"), text_to_bytes("next"))), "next");
  EXPECT_TRUE(store->check({"key", "sum"}));
  EXPECT_TRUE(store->deleteKey("key"));
  EXPECT_THROW(store->wait({"key"}, 20ms), std::exception);
  EXPECT_EQ(bytes_to_text(second.store->clone()->get("group/sum")), "3");
}

TEST(JobStore, AfterARestartByTorchrunIsTheNewRankZeros) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto agent = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  const auto agents_rank = [&](int rank) {
    RankEnvironment environment = rank_of(rank, agent->getPort());
    environment.agent_store = true;
    return environment;
  };
  std::optional<JobStore> before = open_job_store(agents_rank(0), 5s, no_notice);
  before->store->set("place/1", text_to_bytes("of the rank before the restart"));
  before.reset();
  // Ranks restart in any order, and the agents' restart counts may differ: they are not used.
  std::thread rank1([&] {
    const JobStore after = open_job_store(agents_rank(1), 5s, no_notice);
    EXPECT_EQ(bytes_to_text(after.store->get("key")), "new");
    EXPECT_FALSE(after.store->check({"place/1"}));
    after.store->set("met", text_to_bytes(""));
  });
  std::this_thread::sleep_for(100ms);
  const JobStore after = open_job_store(agents_rank(0), 5s, no_notice);
  after.store->set("key", text_to_bytes("new"));
  after.store->wait({"met"}, 5s);
  rank1.join();
}

}  // namespace
}  // namespace wmtp::test
