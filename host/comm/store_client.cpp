#include "comm/store_client.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/secret.hpp"

namespace wmtp {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds time_to_greet{5000};

/// Empty if the server is the job's rendezvous, otherwise a description of it.
std::string greet(const Socket& socket, const std::string& token, Clock::time_point end) {
  socket.send_at_once();
  std::string answer;
  try {
    socket.send_all(clients_greeting(token), end);
    while (answer.size() < greeting_size) socket.receive(answer, greeting_size - answer.size(), end);
  } catch (const std::exception& error) {
    return std::string("it accepts connections but is not a rendezvous: ") + error.what();
  }
  if (same_secret(answer, servers_greeting(token))) return {};
  return answer.starts_with(greeting_prefix) ? "it belongs to another job with a different token (WMTP_TOKEN, "
                                               "or the launcher's name of the job)"
                                             : "the server there is not a rendezvous of wmtp-host";
}

}  // namespace

StoreClient::StoreClient(const std::string& place, const std::function<std::optional<MeetingPlace>()>& where,
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
    cause = greet(socket, meeting->token, Clock::now() + std::min(limit, time_to_greet));
    return cause.empty() ? std::move(socket) : Socket();
  };
  socket_ = connected_in_time(place, attempt, timeout, on_wait);
}

Message StoreClient::ask(const Message& request) {
  const std::string bytes = encoded(request);
  const std::lock_guard lock(mutex_);
  try {
    if (socket_.fd() < 0) throw std::runtime_error("the connection has ended");
    const auto end = Clock::now() + timeout_.load();
    socket_.send_all(bytes, end);
    while (true) {
      if (auto answer = take_message(received_)) return std::move(*answer);
      socket_.receive(received_, size_t{1} << 16, end);
    }
  } catch (const std::exception& error) {
    socket_ = Socket();  // a late answer would be taken for the next request's
    throw std::runtime_error("the rendezvous at " + place_ + " is gone: " + error.what());
  }
}

std::string StoreClient::ask_for_one(const Message& request) {
  Message answer = ask(request);
  if (answer.size() != 1) throw std::runtime_error("the rendezvous at " + place_ + " gives no answer to " + request[0]);
  return std::move(answer[0]);
}

std::optional<std::string> StoreClient::get(const std::string& key) {
  Message answer = ask({"get", key});
  return answer.empty() ? std::nullopt : std::optional(std::move(answer[0]));
}

bool StoreClient::check(const std::vector<std::string>& keys) {
  Message request{"check"};
  request.insert(request.end(), keys.begin(), keys.end());
  return ask_for_one(request) == "yes";
}

int64_t StoreClient::add(const std::string& key, int64_t value) {
  return std::stoll(ask_for_one({"add", key, std::to_string(value)}));
}

std::string StoreClient::swap(const std::string& key, const std::string& expected, const std::string& wanted) {
  return ask_for_one({"swap", key, expected, wanted});
}

bool StoreClient::remove(const std::string& key) { return ask_for_one({"delete", key}) == "yes"; }

int64_t StoreClient::count() { return std::stoll(ask_for_one({"count"})); }

}  // namespace wmtp
