#include "comm/placement.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.hpp"
#include "comm/network.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

using test::refusal;

RankEnvironment rank_of(int rank, int world_size) {
  RankEnvironment environment;
  environment.rank = rank;
  environment.world_size = world_size;
  return environment;
}

// 192.0.2.0/24 is for documentation: no host has such an address.
const std::vector<RankLocation> two_hosts{
    {"a", "192.0.2.1"}, {"b", "192.0.2.2"}, {"a", "192.0.2.1"}, {"b", "192.0.2.2"}, {"b", "192.0.2.2"}};

TEST(Placement, CountsLocalRanksByHostWhereTheLauncherDoesNotSayThem) {
  const int local_ranks[] = {0, 0, 1, 1, 2}, local_sizes[] = {2, 3, 2, 3, 3};
  for (int rank = 0; rank < 5; ++rank) {
    const Placement placement = compute_placement(rank_of(rank, 5), two_hosts);
    EXPECT_EQ(placement.local_rank, local_ranks[rank]) << rank;
    EXPECT_EQ(placement.local_world_size, local_sizes[rank]) << rank;
  }
}

TEST(Placement, BelievesTheLauncher) {
  RankEnvironment environment = rank_of(2, 5);
  environment.local_rank = 3;
  environment.local_world_size = 4;
  EXPECT_EQ(compute_placement(environment, two_hosts).local_rank, 3);
  EXPECT_EQ(compute_placement(environment, two_hosts).local_world_size, 4);
}

TEST(Placement, ExchangesFromTheAddressThatReachedRank0) {
  EXPECT_EQ(compute_placement(rank_of(1, 5), two_hosts).address, "192.0.2.2");
  EXPECT_EQ(compute_placement(rank_of(1, 2), {{"a", "127.0.0.1"}, {"a", "127.0.0.1"}}).address, "127.0.0.1");
}

TEST(Placement, LeavesTheLoopbackWhereARankOfAnotherHostDoes) {
  const std::vector<RankLocation> places{{"a", "127.0.0.1"}, {"b", "127.1.2.3"}};
  EXPECT_EQ(compute_placement(rank_of(0, 2), places).address, "127.0.0.1") << "nobody is elsewhere";
  const std::vector<RankLocation> elsewhere{{"a", "127.0.0.1"}, {"b", "192.0.2.2"}};
  const std::string route = source_address_for("192.0.2.2");  // empty where this machine has no network
  EXPECT_EQ(compute_placement(rank_of(0, 2), elsewhere).address, route.empty() ? "127.0.0.1" : route);
}

TEST(Placement, RefusesAChosenInterfaceThatOtherHostsCannotReach) {
  const std::vector<RankLocation> places{{"a", "192.0.2.1"}, {"b", "127.0.0.1", "lo"}};
  const std::string shown = refusal(ExitStatus::usage, [&] { compute_placement(rank_of(1, 2), places); });
  for (const char* word : {"WMTP_INTERFACE", "rank 1", "127.0.0.1 (interface lo)", "192.0.2.1"})
    EXPECT_SAYS(shown, word);
}

TEST(Placement, CountsTheRanksOfEachHostOrNamesHostsThatDiffer) {
  const auto places_on = [](const std::vector<std::string>& hosts) {
    std::vector<RankLocation> places;
    for (const std::string& host : hosts) places.push_back({"boot/" + host, "192.0.2.1"});
    return places;
  };
  EXPECT_EQ(count_ranks_per_host(places_on({"a", "a", "b", "b"}), ""), 2);
  EXPECT_EQ(count_ranks_per_host(places_on({"a"}), ""), 1);
  const auto refused = [&](const std::vector<std::string>& hosts) -> std::string {
    try {
      count_ranks_per_host(places_on(hosts), "size");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused({"a", "a", "b"}),
            "size: found 2 ranks on a, then 1 rank on b, wanted equally many consecutive ranks on each host");
  EXPECT_EQ(refused({"a", "b", "a", "b"}).find("size: found 1 rank on a, then 1 rank on b, then 1 rank on a"), 0u);
}

TEST(Placement, APlaceSurvivesItsText) {
  for (const char* interface : {"", "eth0"}) {
    const RankLocation place = RankLocation::from_text(RankLocation{"boot/host", "fe80::1%eth0", interface}.to_text());
    EXPECT_EQ(place.host, "boot/host");
    EXPECT_EQ(place.address, "fe80::1%eth0");
    EXPECT_EQ(place.interface, interface);
  }
}

/// Sets a variable during its lifetime.
struct Variable {
  Variable(const char* variable, const char* value) : name(variable) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name); }
  const char* name;
};

/// Rank 1 of two, which may be on different hosts.
RankEnvironment rank_of_hosts() {
  RankEnvironment environment = rank_of(1, 2);
  environment.master_addr = "localhost";
  environment.master_port = 29500;
  return environment;
}

TEST(Placement, TakesTheInterfaceThatIsNamedOurVariableFirst) {
  const RankEnvironment environment = rank_of_hosts();
  EXPECT_EQ(this_rank_location(environment, "192.0.2.1").address, "192.0.2.1");
  const Variable theirs("GLOO_SOCKET_IFNAME", "lo");
  EXPECT_EQ(this_rank_location(environment, "192.0.2.1").address, "127.0.0.1");
  EXPECT_EQ(this_rank_location(environment, "192.0.2.1").interface, "lo");
  const Variable ours("WMTP_INTERFACE", "eth99");
  EXPECT_THROW(check_interface(environment), Error);
  setenv("GLOO_SOCKET_IFNAME", "eth99", 1);
  setenv("WMTP_INTERFACE", "lo", 1);
  EXPECT_EQ(this_rank_location(environment, "192.0.2.1").address, "127.0.0.1");
  EXPECT_NO_THROW(check_interface(environment));
}

TEST(Placement, ReadsListsBeginningsAndExclusionsAsNcclDoes) {
  const RankEnvironment environment = rank_of_hosts();
  const Variable theirs("GLOO_SOCKET_IFNAME", "");
  EXPECT_EQ(this_rank_location(environment, "192.0.2.1").interface, "") << "empty is unset";
  for (const char* text : {"eth99,lo", " eth99 , lo ", "l", "=lo", "=eth99,lo"}) {
    setenv("GLOO_SOCKET_IFNAME", text, 1);
    EXPECT_NO_THROW(check_interface(environment)) << text;
    EXPECT_EQ(this_rank_location(environment, "192.0.2.1").interface, "lo") << text;
  }
  for (const char* text : {"=l", "eth98,eth99", ",", "^", "^l"}) {
    setenv("GLOO_SOCKET_IFNAME", text, 1);
    const bool excludes = text[0] == '^';
    try {
      check_interface(environment);
      EXPECT_TRUE(excludes) << text;
      EXPECT_NE(this_rank_location(environment, "192.0.2.1").interface.substr(0, 1), excludes && text[1] ? "l" : "")
          << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::usage);  // of this machine's interfaces none is left
    }
  }
}

TEST(Placement, DoesNotMindInterfacesWhereAllRanksAreOnOneHost) {
  const RankEnvironment environment = rank_of(1, 2);  // on the loopback
  for (const char* text : {"ib0", "eth0,lo", "^lo"}) {
    const Variable ours("WMTP_INTERFACE", text), theirs("GLOO_SOCKET_IFNAME", text);
    EXPECT_NO_THROW(check_interface(environment)) << text;
    EXPECT_EQ(this_rank_location(environment, "127.0.0.1").address, "127.0.0.1") << text;
    EXPECT_EQ(this_rank_location(environment, "127.0.0.1").interface, "") << text;
  }
}

TEST(Placement, LeavesNcclsInterfaceToTheUserUnlessTheOnlyHostLacksIt) {
  const Placement chosen{"127.0.0.1", "eth1"};
  EXPECT_EQ(nccl_interface(rank_of_hosts(), chosen), "=eth1");
  EXPECT_EQ(nccl_interface(rank_of_hosts(), {}), "");
  const Variable theirs("NCCL_SOCKET_IFNAME", "ib0");
  EXPECT_EQ(nccl_interface(rank_of_hosts(), chosen), "ib0");
  EXPECT_EQ(nccl_interface(rank_of(1, 2), {}), "=lo") << "of other hosts";
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  EXPECT_EQ(nccl_interface(rank_of(1, 2), {}), "lo");
  setenv("NCCL_SOCKET_IFNAME", "", 1);
  EXPECT_EQ(nccl_interface(rank_of(1, 2), {}), "");
}

TEST(Placement, RefusesAnAbsentInterfaceWithTheAddressesOnTheRouteToTheRendezvous) {
  const Variable ours("WMTP_INTERFACE", "eth99");
  const RankEnvironment environment = rank_of_hosts();
  const std::string route =
      "use " + source_address_for("localhost") + ", from which this host reaches the rendezvous at localhost:29500";
  const std::string shown = refusal(ExitStatus::usage, [&] { check_interface(environment); });
  EXPECT_SAYS(shown, "WMTP_INTERFACE: found no interface 'eth99'");
  EXPECT_SAYS(shown, "lo (127.0.0.1)");
  EXPECT_SAYS(shown, route);
  EXPECT_NO_THROW(check_interface(rank_of(0, 1))) << "one rank connects to none";
}

TEST(Placement, RefusesAnAddressThatDoesNotReachRank0) {
  const std::vector<RankLocation> places{{"a", "192.0.2.1", "eth1"}, {"b", "127.0.0.1"}, {"a", "127.0.0.1"}};
  EXPECT_SAYS(refusal(ExitStatus::usage, [&] { check_route(rank_of(1, 3), places); }),
              "from 127.0.0.1 with the rank at 192.0.2.1 (interface eth1)");
  EXPECT_NO_THROW(check_route(rank_of(2, 3), places)) << "on rank 0's host";
}

}  // namespace
}  // namespace wmtp
