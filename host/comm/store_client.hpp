// StoreClient: a rank's connection to the job's rendezvous store. Thread-safe: each request is answered before the next
// is sent.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "comm/network.hpp"
#include "comm/store_wire.hpp"

namespace wmtp {

/// The address of a rendezvous, and the token of its job.
struct RendezvousAddress {
  std::string host;
  int port = 0;
  std::string token;
};

class StoreClient {
 public:
  using Milliseconds = std::chrono::milliseconds;

  /// Connects to `where()`, evaluated before every attempt (nullopt: not published by rank 0 yet), until a rendezvous
  /// of this job answers or `timeout` has passed; `timeout` also limits each request. `on_wait` is called once, after
  /// five seconds, with the cause of the delay. Error(peer) names `place` and what answered there.
  StoreClient(const std::string& place, const std::function<std::optional<RendezvousAddress>()>& where,
              Milliseconds timeout, const std::function<void(const std::string& cause)>& on_wait);
  std::string own_address() const { return socket_.own_address(); }

  // std::runtime_error if the store is gone or does not answer in time, and on every later call. [any thread]
  void set(const std::string& key, const std::string& value) { send_request({"set", key, value}); }
  /// Makes the store set this key when the connection closes for any reason.
  void set_when_closed(const std::string& key) { send_request({"set_when_closed", key}); }
  std::optional<std::string> get(const std::string& key);
  bool check(const std::vector<std::string>& keys);
  int64_t add(const std::string& key, int64_t value);
  /// Sets the entry to `wanted` if it equals `expected` (a missing entry counts as empty); returns the resulting entry.
  std::string compare_exchange(const std::string& key, const std::string& expected, const std::string& wanted);
  bool remove(const std::string& key);
  int64_t count();

  /// For all further requests. [any thread]
  void set_timeout(Milliseconds timeout) { timeout_ = timeout; }
  Milliseconds timeout() const { return timeout_; }

 private:
  Message send_request(const Message& request);
  std::string request_value(const Message& request);

  std::mutex mutex_;
  std::string place_;
  Socket socket_;
  std::string received_;
  std::atomic<Milliseconds> timeout_;
};

}  // namespace wmtp
