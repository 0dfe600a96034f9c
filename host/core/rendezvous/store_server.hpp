// StoreServer: the rendezvous store of a job, served by a thread of rank 0's process. Knows no LibTorch.
//
// Whoever connects has time_to_greet to show the job's token, and nothing before that makes the server allocate more
// than a greeting; of those that have not shown it at most most_strangers are kept, and the oldest of them makes room.
// So neither silent connections nor many keep the ranks out. No name is ever looked up. A client may name a key that is
// set once its connection has closed, by which the others see that its process is gone.
#pragma once

#include <list>
#include <map>
#include <string>
#include <thread>

#include "core/rendezvous/network.hpp"
#include "core/rendezvous/store_wire.hpp"

namespace wmtp {

class StoreServer {
 public:
  static constexpr int most_strangers = 256;

  /// `listener` as network.hpp gives it. Error(storage) when the system gives no descriptor.
  StoreServer(Socket listener, const std::string& token,
              std::chrono::milliseconds time_to_greet = std::chrono::seconds(5));
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;

  int port() const { return listener_.port(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    Socket socket;
    Clock::time_point greets_by;
    bool is_known = false;
    std::string set_when_closed = {};  ///< a key; empty: none
    std::string in = {}, out = {};
  };
  void serve();
  void accept_some();
  bool drop_oldest_stranger();
  int milliseconds_to_next_deadline() const;
  bool goes_on(Connection& connection, short events);
  bool greet(Connection& connection);
  static bool send_some(Connection& connection);
  Message answer(Connection& connection, const Message& request);

  Socket listener_, wake_;
  std::chrono::milliseconds time_to_greet_;
  std::string wanted_greeting_, own_greeting_;
  std::list<Connection> connections_;
  std::map<std::string, std::string> entries_;
  std::thread thread_;
};

}  // namespace wmtp
