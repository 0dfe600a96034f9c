// Server and client of the rendezvous store on the loopback, and foreign clients that connect to it.
#include "comm/store_server.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>
#include <vector>

#include "base/error.hpp"
#include "comm/store_client.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

const auto no_notice = [](const std::string&) {};

StoreClient client_of(int port, const std::string& token = "token", std::chrono::milliseconds timeout = 5s) {
  const auto where = [=] { return RendezvousAddress{"127.0.0.1", port, token}; };
  return StoreClient("127.0.0.1:" + std::to_string(port), where, timeout, no_notice);
}

std::string refusal(int port, const std::string& token = "token") {
  return test::refusal(ExitStatus::peer, [&] { client_of(port, token, 500ms); });
}

Socket stranger_at(int port) {
  std::string cause;
  Socket socket = connected_to("127.0.0.1", port, 1s, cause);
  EXPECT_GE(socket.fd(), 0) << cause;
  return socket;
}

/// What the server sends until it closes the connection.
std::string answer_to(const Socket& stranger, const std::string& bytes) {
  std::string answer;
  try {
    stranger.send_all(bytes, Clock::now() + 5s);
    while (true) stranger.receive(answer, 1000, Clock::now() + 5s);
  } catch (const std::exception& error) {
    EXPECT_EQ(std::string(error.what()).find("in time"), std::string::npos) << "it is still open";
  }
  return answer;
}

class StoreServerTest : public testing::Test {
 protected:
  StoreServer server_{listen_on_address("127.0.0.1", 0), "token", 500ms};
};

TEST_F(StoreServerTest, KeepsWhatOneSetsForTheOthers) {
  StoreClient one = client_of(server_.port()), other = client_of(server_.port());
  const std::string bytes("\0\xff", 2);
  one.set("key", bytes);
  EXPECT_EQ(other.get("key"), bytes);
  EXPECT_EQ(other.get("none"), std::nullopt);
  EXPECT_TRUE(other.check({"key"}));
  EXPECT_FALSE(other.check({"key", "none"}));
  EXPECT_EQ(one.add("sum", 2), 2);
  EXPECT_EQ(other.add("sum", -5), -3);
  EXPECT_EQ(other.count(), 2);
  EXPECT_TRUE(other.remove("key"));
  EXPECT_FALSE(one.remove("key"));
  EXPECT_EQ(one.own_address(), "127.0.0.1");
}

TEST_F(StoreServerTest, ChangesOnlyWhatIsStillAsExpected) {
  StoreClient client = client_of(server_.port());
  EXPECT_EQ(client.compare_exchange("key", "wrong", "first"), "wrong")
      << "as c10d's stores answer where there is no entry";
  EXPECT_EQ(client.compare_exchange("key", "", "first"), "first");
  EXPECT_EQ(client.compare_exchange("key", "wrong", "second"), "first");
  EXPECT_EQ(client.compare_exchange("key", "first", "second"), "second");
}

TEST_F(StoreServerTest, SetsTheKeyOfAClientOnceItsConnectionHasEnded) {
  StoreClient stays = client_of(server_.port());
  {
    StoreClient goes = client_of(server_.port());
    goes.set_when_closed("gone");
    EXPECT_FALSE(stays.check({"gone"}));
  }
  const auto end = Clock::now() + 5s;
  while (!stays.check({"gone"}) && Clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(stays.get("gone"), "");
}

TEST_F(StoreServerTest, TakesATextOfManyMegabytes) {
  StoreClient client = client_of(server_.port());
  const std::string text(5'000'000, 'x');
  client.set("key", text);
  EXPECT_EQ(client.get("key"), text);
  EXPECT_THROW(client.set("key", std::string(max_message_bytes, 'x')), std::length_error);
  EXPECT_EQ(client.get("key"), text) << "the connection goes on";
}

TEST_F(StoreServerTest, AnswersManyThreadsOfOneClient) {
  StoreClient client = client_of(server_.port());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 200; ++j) client.add("sum", 1);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(client.get("sum"), "800");
}

TEST_F(StoreServerTest, TurnsAwayWhoDoesNotKnowTheToken) {
  EXPECT_NE(refusal(server_.port(), "another").find("another job"), std::string::npos);
  EXPECT_EQ(answer_to(stranger_at(server_.port()), encoded({"get", "key"}) + std::string(greeting_size, '\0')),
            refusing_greeting());
  EXPECT_EQ(answer_to(stranger_at(server_.port()), clients_greeting("another")), refusing_greeting());
  EXPECT_EQ(answer_to(stranger_at(server_.port()), servers_greeting("token")), refusing_greeting());
}

TEST_F(StoreServerTest, ClosesConnectionsWithoutACompleteGreeting) {
  const Socket silent = stranger_at(server_.port());
  EXPECT_EQ(answer_to(stranger_at(server_.port()), "wmtp-rendez"), "");
  EXPECT_EQ(answer_to(silent, ""), "");
}

TEST_F(StoreServerTest, ClosesAConnectionThatSendsNoMessages) {
  const std::string hello = clients_greeting("token");
  for (const std::string& nonsense : {std::string("\xff\xff\xff\xff", 4), encoded({}), encoded({"get"}),
                                      encoded({"add", "key", "x"}), encoded({"?", "", ""})})
    EXPECT_EQ(answer_to(stranger_at(server_.port()), hello + nonsense), servers_greeting("token"));
  EXPECT_EQ(client_of(server_.port()).count(), 0);
}

TEST(StoreServer, ServesItsRanksWhileStrangersHoldAllTheConnectionsTheyCanGet) {
  StoreServer server(listen_on_address("127.0.0.1", 0), "token");  // foreign clients have 5 s
  StoreClient first = client_of(server.port());
  std::vector<Socket> strangers;
  for (int i = 0; i < StoreServer::max_unauthenticated + 50; ++i) strangers.push_back(stranger_at(server.port()));
  const auto begun = Clock::now();
  StoreClient second = client_of(server.port());
  first.set("key", "value");
  EXPECT_EQ(second.get("key"), "value");
  EXPECT_LT(Clock::now() - begun, 2s);
}

TEST(StoreServer, ListensOnTheLoopbackAlone) {
  const StoreServer server(listen_on_address("127.0.0.1", 0), "token");
  std::string cause;
  EXPECT_LT(connected_to("127.0.0.2", server.port(), 1s, cause).fd(), 0);
  const std::string own = source_address_for("192.0.2.1");
  EXPECT_TRUE(own.empty() || connected_to(own, server.port(), 1s, cause).fd() < 0) << own;
}

TEST(StoreServer, EndsImmediatelyDespiteConnectionsAndItsClientsNotice) {
  auto server = std::make_unique<StoreServer>(listen_on_address("127.0.0.1", 0), "token");
  StoreClient client = client_of(server->port());
  const Socket stranger = stranger_at(server->port());
  const auto begun = Clock::now();
  server.reset();
  EXPECT_LT(Clock::now() - begun, 1s);
  for (int i = 0; i < 2; ++i) EXPECT_THROW(client.get("key"), std::runtime_error);
}

TEST(StoreClient, ReportsWhatItReachedInsteadOfTheRendezvous) {
  const Socket silent = listen_on_address("127.0.0.1", 0);
  const std::string shown = refusal(silent.port());
  EXPECT_NE(shown.find("127.0.0.1:" + std::to_string(silent.port())), std::string::npos) << shown;
  EXPECT_NE(shown.find("it accepts connections but is not a rendezvous"), std::string::npos) << shown;
  const Socket other = listen_on_address("127.0.0.1", 0);
  std::thread greeter([&] {
    Socket guest;
    while (guest.fd() < 0) guest = Socket(accept4(other.fd(), nullptr, nullptr, SOCK_NONBLOCK));
    guest.send_all("220 mail.example ESMTP" + std::string(greeting_size, ' '), Clock::now() + 1s);
    std::this_thread::sleep_for(200ms);
  });
  const std::string answered = refusal(other.port());
  greeter.join();
  EXPECT_NE(answered.find("is not a rendezvous"), std::string::npos) << answered;
}

TEST(StoreClient, AsksAgainForTheAddressUntilTheServerAnswers) {
  const int left = [] { return listen_on_address("127.0.0.1", 0).port(); }();
  const StoreServer server(listen_on_address("127.0.0.1", 0), "second");
  int asked = 0;
  const auto where = [&]() -> std::optional<RendezvousAddress> {
    if (++asked == 1) return {};
    if (asked == 2) return RendezvousAddress{"127.0.0.1", left, "first"};
    return RendezvousAddress{"127.0.0.1", server.port(), "second"};
  };
  StoreClient client("here", where, 5s, no_notice);
  EXPECT_EQ(client.count(), 0);
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace wmtp
