#include "comm/store_wire.hpp"

#include <cstdint>
#include <stdexcept>

#include "base/sha256.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr size_t number_size = 4;

void put_number(std::string& bytes, size_t number) {
  for (size_t i = 0; i < number_size; ++i) bytes.push_back(char(number >> (8 * i) & 0xff));
}

size_t number_at(std::string_view bytes) {
  size_t number = 0;
  for (size_t i = 0; i < number_size; ++i) number |= size_t(uint8_t(bytes[i])) << (8 * i);
  return number;
}

std::string greeting(const std::string& role, const std::string& token) {
  return std::string(greeting_prefix) + sha256_hex("wmtp-rendezvous 1 " + role + " " + token);
}

[[noreturn]] void refuse_message() { throw std::runtime_error("invalid message"); }

}  // namespace

std::string clients_greeting(const std::string& token) { return greeting("client", token); }
std::string servers_greeting(const std::string& token) { return greeting("server", token); }
std::string refusing_greeting() { return std::string(greeting_prefix) + std::string(64, '0'); }

std::string encoded(const Message& message) {
  size_t size = 0;
  for (const std::string& text : message) size += number_size + text.size();
  if (size > max_message_bytes)
    throw std::length_error("a text of " + std::to_string(size) + " bytes is too long for the rendezvous");
  std::string bytes;
  bytes.reserve(number_size + size);
  put_number(bytes, size);
  for (const std::string& text : message) {
    put_number(bytes, text.size());
    bytes += text;
  }
  return bytes;
}

std::optional<Message> take_message(std::string& bytes) {
  if (bytes.size() < number_size) return {};
  const size_t size = number_at(bytes);
  if (size > max_message_bytes) refuse_message();
  if (bytes.size() < number_size + size) return {};
  Message message;
  for (std::string_view rest = std::string_view(bytes).substr(number_size, size); !rest.empty();) {
    if (rest.size() < number_size) refuse_message();
    const size_t length = number_at(rest);
    rest.remove_prefix(number_size);
    if (length > rest.size()) refuse_message();
    message.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  bytes.erase(0, number_size + size);
  return message;
}

}  // namespace wmtp
