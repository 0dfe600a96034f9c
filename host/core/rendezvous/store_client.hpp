// StoreClient: a rank's connection to the job's rendezvous store. Requests may come from several threads; each is
// answered before the next is sent. Knows no LibTorch.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "core/rendezvous/network.hpp"
#include "core/rendezvous/store_wire.hpp"

namespace wmtp {

/// Where a rendezvous is, and what shows that one belongs to it.
struct MeetingPlace {
  std::string host;
  int port = 0;
  std::string token;
};

class StoreClient {
 public:
  using Milliseconds = std::chrono::milliseconds;

  /// Connects to what `where` says, which is asked before every attempt (nothing: rank 0 has not said it yet), until a
  /// rendezvous of this job answers or `timeout` has passed; that long each request may take too. `on_wait` is called
  /// once, after some seconds, with the cause of the delay. Error(peer) names `place` and what answered there.
  StoreClient(const std::string& place, const std::function<std::optional<MeetingPlace>()>& where, Milliseconds timeout,
              const std::function<void(const std::string& cause)>& on_wait);
  /// Of this end.
  std::string own_address() const { return socket_.own_address(); }

  // std::runtime_error when the store is gone, or does not answer in time; it is then gone for good. [any thread]
  void set(const std::string& key, const std::string& value) { ask({"set", key, value}); }
  /// The store sets this key once the connection has ended, however it ends.
  void set_when_closed(const std::string& key) { ask({"set_when_closed", key}); }
  std::optional<std::string> get(const std::string& key);
  bool check(const std::vector<std::string>& keys);
  int64_t add(const std::string& key, int64_t value);
  /// The entry afterwards: `wanted` where it was `expected` (or absent, for an empty one).
  std::string swap(const std::string& key, const std::string& expected, const std::string& wanted);
  bool remove(const std::string& key);
  int64_t count();

  /// Of each request from now on. [any thread]
  void set_timeout(Milliseconds timeout) { timeout_ = timeout; }
  Milliseconds timeout() const { return timeout_; }

 private:
  Message ask(const Message& request);
  std::string ask_for_one(const Message& request);

  std::mutex mutex_;
  std::string place_;
  Socket socket_;
  std::string received_;
  std::atomic<Milliseconds> timeout_;
};

}  // namespace wmtp
