// The protocol of the rendezvous store: first a greeting of fixed size in each direction, which proves knowledge of the
// job's token; then alternating requests and answers, each a message: a list of texts.
//
//   greeting   "wmtp-rendezvous ", then 64 hexadecimal digits: a hash of the token and the role, so that neither end
//              can reuse the other's greeting
//   message    its size in bytes, then each text, preceded by its size; sizes are 4 bytes, little-endian
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp {

using Message = std::vector<std::string>;

inline constexpr size_t max_message_bytes = size_t{64} << 20;

inline constexpr std::string_view greeting_prefix = "wmtp-rendezvous ";
inline constexpr size_t greeting_size = greeting_prefix.size() + 64;
std::string clients_greeting(const std::string& token);
std::string servers_greeting(const std::string& token);
/// The server's answer to a client with the wrong token.
std::string refusing_greeting();

/// std::length_error if larger than max_message_bytes.
std::string encoded(const Message& message);
/// Removes the first message from the front of `bytes`; nullopt while it is incomplete. std::runtime_error for an
/// invalid message or, as soon as its size is known, for one that is too large.
std::optional<Message> take_message(std::string& bytes);

}  // namespace wmtp
