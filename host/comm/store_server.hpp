// StoreServer: the rendezvous store of a job, served by a thread of rank 0's process.
//
// A client has greeting_timeout to present the job's token; until then the server allocates no more than a greeting for
// it. At most max_unauthenticated connections without a token are kept; a new one replaces the oldest. So neither
// silent nor numerous connections lock out the ranks. A client may name a key to be set when its connection closes,
// which tells the others that its process has ended.
#pragma once

#include <list>
#include <map>
#include <string>
#include <thread>

#include "comm/network.hpp"
#include "comm/store_wire.hpp"

namespace wmtp {

class StoreServer {
 public:
  static constexpr int max_unauthenticated = 256;

  /// `listener`: a listening socket (network.hpp). Error(storage) if no file descriptor is available.
  StoreServer(Socket listener, const std::string& token,
              std::chrono::milliseconds greeting_timeout = std::chrono::seconds(5));
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;

  int port() const { return listener_.port(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    Socket socket;
    Clock::time_point greeting_deadline;
    bool is_authenticated = false;
    std::string set_when_closed = {};  ///< a key; empty: none
    std::string in = {}, out = {};
  };
  void serve();
  void accept_some();
  bool drop_oldest_unauthenticated();
  int milliseconds_to_next_deadline() const;
  bool handle(Connection& connection, short events);
  bool greet(Connection& connection);
  static bool send_some(Connection& connection);
  Message reply_to(Connection& connection, const Message& request);

  Socket listener_, wake_;
  std::chrono::milliseconds greeting_timeout_;
  std::string wanted_greeting_, own_greeting_;
  std::list<Connection> connections_;
  std::map<std::string, std::string> entries_;
  std::thread thread_;
};

}  // namespace wmtp
