#include "comm/network.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

using std::chrono::milliseconds;
using test::refusal;

const auto no_notice = [](const std::string&) {};

/// The address from which host:port is reached.
std::string own_address_towards(const std::string& host, int port, milliseconds timeout) {
  const auto attempt = [&](milliseconds limit, std::string& cause) { return connected_to(host, port, limit, cause); };
  return connect_with_retry(host + ":" + std::to_string(port), attempt, timeout, no_notice).own_address();
}

/// A loopback port with a listener during its lifetime.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 4), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
  }
  ~Listener() { close(fd_); }
  int port = 0;

 private:
  int fd_;
};

TEST(Network, SaysFromWhichAddressAConnectionLeft) {
  const Listener listener;
  EXPECT_EQ(own_address_towards("127.0.0.1", listener.port, milliseconds{2000}), "127.0.0.1");
  EXPECT_EQ(own_address_towards("localhost", listener.port, milliseconds{2000}), "127.0.0.1");
}

TEST(Network, AHostThatRefusesAConnectionIsReached) {
  const int closed = [] { return Listener().port; }();
  std::string cause;
  EXPECT_TRUE(can_reach("127.0.0.1", "127.0.0.1", closed, cause)) << cause;
  EXPECT_TRUE(can_reach("127.0.0.1", "127.0.0.1", Listener().port, cause)) << cause;
  EXPECT_FALSE(can_reach("127.0.0.1", "192.0.2.1", closed, cause)) << "no other host is reached from the loopback";
  EXPECT_FALSE(cause.empty());
}

TEST(Network, ListsTheInterfacesOfThisHostOnce) {
  const std::vector<Interface> all = list_interfaces();
  const auto is_loopback_interface = [](const Interface& one) { return one.name == "lo"; };
  EXPECT_EQ(std::count_if(all.begin(), all.end(), is_loopback_interface), 1);
  const auto lo = std::find_if(all.begin(), all.end(), is_loopback_interface);
  EXPECT_EQ(lo->address, "127.0.0.1");
  EXPECT_TRUE(lo->is_up);
}

TEST(Network, NamesTheAddressThatCannotBeReachedAndKeepsToItsTime) {
  const int closed = [] { return Listener().port; }();
  const auto begun = std::chrono::steady_clock::now();
  const std::string shown =
      refusal(ExitStatus::peer, [&] { own_address_towards("127.0.0.1", closed, milliseconds{300}); });
  EXPECT_SAYS(shown, "127.0.0.1:" + std::to_string(closed));
  EXPECT_SAYS(shown, "refused");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, milliseconds{3000});
}

TEST(Network, NamesAHostThatCannotBeResolved) {
  const std::string shown =
      refusal(ExitStatus::peer, [] { own_address_towards("no-such-host.invalid", 4000, milliseconds{1}); });
  EXPECT_SAYS(shown, "no-such-host.invalid:4000");
  EXPECT_SAYS(shown, "resolved");
}

TEST(Network, ListensAtOneAddressOnly) {
  const Socket listener = listen_on_address("127.0.0.1", 0);
  std::string cause;
  EXPECT_GE(connected_to("127.0.0.1", listener.port(), milliseconds{1000}, cause).fd(), 0) << cause;
  EXPECT_LT(connected_to("127.0.0.2", listener.port(), milliseconds{1000}, cause).fd(), 0);
  EXPECT_NE(cause.find("refused"), std::string::npos) << cause;
}

TEST(Network, ListensEverywhereUnderANameThatMeansTheLoopback) {
  const Socket listener = listen_on_host("localhost", 0);
  std::string cause;
  EXPECT_GE(connected_to("127.0.0.2", listener.port(), milliseconds{1000}, cause).fd(), 0) << cause;
}

TEST(Network, RefusesAPortInUseAndAnAddressOfAnotherHost) {
  const Listener taken;
  for (const auto& listen : {listen_on_address, listen_on_host})
    EXPECT_SAYS(refusal(ExitStatus::usage, [&] { listen("127.0.0.1", taken.port); }),
                std::to_string(taken.port) + " is in use");
  EXPECT_SAYS(refusal(ExitStatus::peer, [] { listen_on_address("192.0.2.1", 0); }), "192.0.2.1");
}

TEST(Network, FindsItsAddressOnTheWayToAnother) {
  EXPECT_EQ(source_address_for("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(source_address_for("no address"), "");
}

TEST(Network, KnowsTheLoopback) {
  for (const char* address : {"127.0.0.1", "127.0.1.1", "::1"}) EXPECT_TRUE(is_loopback(address)) << address;
  for (const char* address : {"10.0.0.1", "128.0.0.1", "fe80::1%eth0", "::2"}) EXPECT_FALSE(is_loopback(address));
}

TEST(Network, AHostIsTheSameTwice) {
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_GT(host_identity().size(), 30u) << "a boot id and a name";
}

}  // namespace
}  // namespace wmtp
