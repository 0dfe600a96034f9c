#include "core/ui/server.hpp"

#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "core/ui/bounded_server.hpp"
#include "core/ui/routes.hpp"

namespace wmtp {
namespace {

constexpr const char* address = "127.0.0.1";
constexpr timespec look_up{0, 200'000'000};

/// Styles may be set by scripts, which is how the plots are laid out; nothing comes from elsewhere, nothing goes there.
constexpr const char* policy =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// By a provider: a body that is set as a text would be compressed as hard as Brotli can, which takes a second for what
/// the loopback carries in a millisecond.
void give(httplib::Response& response, PageAnswer answer) {
  response.status = answer.status;
  const auto body = std::make_shared<const std::string>(std::move(answer.body));
  response.set_content_provider(body->size(), answer.type.c_str(),
                                [body](size_t offset, size_t length, httplib::DataSink& sink) {
                                  return sink.write(body->data() + offset, length);
                                });
}

void set_up(httplib::Server& server, PageData& data, const int& port) {
  // The library's own choice, SO_REUSEPORT, would share the port with a second program instead of refusing.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  server.set_tcp_nodelay(true);
  server.set_payload_max_length(0);
  server.set_default_headers({{"Content-Security-Policy", policy},
                              {"X-Content-Type-Options", "nosniff"},
                              {"Cross-Origin-Resource-Policy", "same-origin"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cache-Control", "no-store"}});
  server.set_pre_routing_handler([&port](const httplib::Request& request, httplib::Response& response) {
    if (!is_own_page(request.get_header_value("Host"), request.get_header_value("Origin"), port)) {
      give(response, {403, "text/plain", "this page answers to http://127.0.0.1 and http://localhost only\n"});
    } else if (request.method != "GET" && request.method != "HEAD") {
      give(response, {405, "text/plain", "this page can only be read\n"});
    } else {
      return httplib::Server::HandlerResponse::Unhandled;
    }
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get(".*", [&data](const httplib::Request& request, httplib::Response& response) {
    give(response, answer_page(data, request.path, {request.params.begin(), request.params.end()}));
  });
}

int bind_or_refuse(httplib::Server& server, int wanted) {
  errno = 0;
  const int port = wanted == 0 ? server.bind_to_any_port(address) : server.bind_to_port(address, wanted) ? wanted : -1;
  if (port > 0) return port;
  const std::string cause = errno == EADDRINUSE ? "it is in use" : std::strerror(errno);
  throw Error(ExitStatus::usage, "port " + std::to_string(wanted) + " of " + address + " cannot be had: " + cause +
                                     "; name another with --port N, or --port 0 for any that is free");
}

}  // namespace

void serve_page(PageData& data, int wanted, const std::function<void(int)>& listening) {
  BoundedServer server;
  int port = wanted;
  set_up(server, data, port);
  port = bind_or_refuse(server, wanted);
  server.let_many_connect();

  // Blocked before there are threads, so that no thread of the server takes them. They stay blocked: some send a signal
  // twice (timeout does), and the second would end what has ended well.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::atomic<bool> ended = false;
  std::thread listener([&] {
    server.listen_after_bind();
    ended = true;
  });
  listening(port);
  while (!ended && sigtimedwait(&ends, nullptr, &look_up) < 0) {
  }
  const bool by_itself = ended;
  server.stop();
  listener.join();
  if (by_itself) throw Error(ExitStatus::storage, "the page can no longer be served: its socket failed");
}

}  // namespace wmtp
