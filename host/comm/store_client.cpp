#include "comm/store_client.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/secret.hpp"

namespace wmtp {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds greeting_timeout{5000};

/// Empty if the server is the job's rendezvous, otherwise a description of it.
std::string greet(const Socket& socket, const std::string& token, Clock::time_point end) {
  socket.disable_nagle();
  std::string reply;
  try {
    socket.send_all(clients_greeting(token), end);
    while (reply.size() < greeting_size) socket.receive(reply, greeting_size - reply.size(), end);
  } catch (const std::exception& error) {
    return std::string("it accepts connections but is not a rendezvous: ") + error.what();
  }
  if (same_secret(reply, servers_greeting(token))) return {};
  return reply.starts_with(greeting_prefix) ? "it belongs to another job with a different token (WMTP_TOKEN, "
                                              "or the launcher's name of the job)"
                                            : "the server there is not a rendezvous of wmtp-host";
}

}  // namespace

StoreClient::StoreClient(const std::string& place, const std::function<std::optional<RendezvousAddress>()>& where,
                         Milliseconds timeout, const std::function<void(const std::string& cause)>& on_wait)
    : place_(place), timeout_(timeout) {
  const auto attempt = [&](milliseconds limit, std::string& cause) {
    const auto meeting = where();
    if (!meeting) {
      cause = "rank 0 has not published its address yet";
      return Socket();
    }
    Socket socket = connected_to(meeting->host, meeting->port, limit, cause);
    if (socket.fd() < 0) return socket;
    cause = greet(socket, meeting->token, Clock::now() + std::min(limit, greeting_timeout));
    return cause.empty() ? std::move(socket) : Socket();
  };
  socket_ = connect_with_retry(place, attempt, timeout, on_wait);
}

Message StoreClient::send_request(const Message& request) {
  const std::string bytes = encoded(request);
  const std::lock_guard lock(mutex_);
  try {
    if (socket_.fd() < 0) throw std::runtime_error("the connection has ended");
    const auto end = Clock::now() + timeout_.load();
    socket_.send_all(bytes, end);
    while (true) {
      if (auto reply = take_message(received_)) return std::move(*reply);
      socket_.receive(received_, size_t{1} << 16, end);
    }
  } catch (const std::exception& error) {
    socket_ = Socket();  // a late reply would be taken for the next request's
    throw std::runtime_error("the rendezvous at " + place_ + " is gone: " + error.what());
  }
}

std::string StoreClient::request_value(const Message& request) {
  Message reply = send_request(request);
  if (reply.size() != 1) throw std::runtime_error("the rendezvous at " + place_ + " gives no reply to " + request[0]);
  return std::move(reply[0]);
}

std::optional<std::string> StoreClient::get(const std::string& key) {
  Message reply = send_request({"get", key});
  return reply.empty() ? std::nullopt : std::optional(std::move(reply[0]));
}

bool StoreClient::check(const std::vector<std::string>& keys) {
  Message request{"check"};
  request.insert(request.end(), keys.begin(), keys.end());
  return request_value(request) == "yes";
}

int64_t StoreClient::add(const std::string& key, int64_t value) {
  return std::stoll(request_value({"add", key, std::to_string(value)}));
}

std::string StoreClient::compare_exchange(const std::string& key, const std::string& expected,
                                          const std::string& wanted) {
  return request_value({"swap", key, expected, wanted});
}

bool StoreClient::remove(const std::string& key) { return request_value({"delete", key}) == "yes"; }

int64_t StoreClient::count() { return std::stoll(request_value({"count"})); }

}  // namespace wmtp
