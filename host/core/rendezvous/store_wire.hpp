// What is said on a connection of the rendezvous: first a greeting each way, of a fixed size, in which both ends show
// that they know the job's token; then messages, each a list of texts, a request and its answer in turn. Knows no
// LibTorch.
//
//   greeting   "wmtp-rendezvous ", then 64 hex digits that follow from the token and differ between the two ends, so
//              that neither learns from the other what it did not know
//   message    the number of its bytes, then each text after the number of its own; numbers of 4 bytes, lowest first
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp {

using Message = std::vector<std::string>;

inline constexpr size_t largest_message = size_t{64} << 20;

inline constexpr std::string_view greeting_prefix = "wmtp-rendezvous ";
inline constexpr size_t greeting_size = greeting_prefix.size() + 64;
std::string clients_greeting(const std::string& token);
std::string servers_greeting(const std::string& token);
/// What the server says to a client that has another token.
std::string refusing_greeting();
/// Takes as long whichever bytes differ.
bool same_greeting(const std::string& a, const std::string& b);

/// 128 random bits in hex digits.
std::string drawn_token();

/// std::length_error where it would be larger than largest_message.
std::string encoded(const Message& message);
/// Takes the first message off the front of `bytes`; nothing while it is not all there. std::runtime_error for what is
/// no message, or one that is too large, as soon as its size can be read.
std::optional<Message> take_message(std::string& bytes);

}  // namespace wmtp
