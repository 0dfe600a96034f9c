#include "comm/store_wire.hpp"

#include <gtest/gtest.h>

#include "base/secret.hpp"

namespace wmtp {
namespace {

TEST(StoreWire, AMessageComesBackHoweverItIsCut) {
  const Message first{"set", "key", std::string("\0\xff\n", 3), ""}, second{}, third{"get"};
  const std::string sent = encoded(first) + encoded(second) + encoded(third);
  std::string received;
  std::vector<Message> found;
  for (const char byte : sent) {
    received.push_back(byte);
    while (const auto message = take_message(received)) found.push_back(*message);
  }
  EXPECT_EQ(found, (std::vector<Message>{first, second, third}));
  EXPECT_TRUE(received.empty());
}

TEST(StoreWire, AMessageThatIsTooLargeIsRefusedByItsSizeAlone) {
  for (const unsigned char highest : {'\xff', '\x05'}) {
    std::string bytes{0, 0, 0, char(highest)};
    EXPECT_THROW(take_message(bytes), std::runtime_error) << int(highest);
  }
  EXPECT_THROW(encoded({std::string(max_message_bytes, 'x')}), std::length_error);
}

TEST(StoreWire, TextsThatReachBeyondTheirMessageAreRefused) {
  std::string longer_text("\x05\0\0\0\x02\0\0\0x", 9), half_a_size("\x02\0\0\0\0\0", 6);
  EXPECT_THROW(take_message(longer_text), std::runtime_error);
  EXPECT_THROW(take_message(half_a_size), std::runtime_error);
}

TEST(StoreWire, GreetingsFollowFromTheTokenAndTheEnd) {
  EXPECT_EQ(clients_greeting("a").size(), greeting_size);
  EXPECT_TRUE(same_secret(clients_greeting("a"), clients_greeting("a")));
  for (const std::string& other : {clients_greeting("b"), servers_greeting("a"), refusing_greeting(), std::string()})
    EXPECT_FALSE(same_secret(clients_greeting("a"), other)) << other;
  EXPECT_EQ(clients_greeting("secret").find("secret"), std::string::npos);
}

}  // namespace
}  // namespace wmtp
