// BoundedServer: httplib's server, which nobody can hold by connections that say little or read slowly.
//
// The library gives each connection a thread until it is closed, and waits for each byte anew. Here a connection may
// keep a thread waiting for some time in all, which is short while others wait for a thread. Those that wait are served
// newest first, as old ones among them are likely never to ask; beyond a number the oldest is closed.
#pragma once

#include <httplib.h>

#include <atomic>

namespace wmtp {

class BoundedServer : public httplib::Server {
 public:
  BoundedServer();
  /// Once it is bound: the library lets five connections wait to be accepted, and those beyond wait for a second.
  void let_many_connect();

 private:
  bool process_and_close_socket(socket_t socket) override;

  std::atomic<size_t> waiting_ = 0;  ///< connections without a thread
};

}  // namespace wmtp
