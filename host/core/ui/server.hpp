// `ui`: the page over HTTP, for this machine only.
//
// Bound to 127.0.0.1; answers GET and HEAD, and only requests of its own pages (routes.hpp). A content security policy
// in every answer keeps the browser from loading anything from other origins.
#pragma once

#include <functional>

#include "core/ui/page_data.hpp"

namespace wmtp {

/// Serves until SIGINT or SIGTERM. `listening` gets the port, which is chosen here if `port` is 0. Error(usage) when
/// the port is not available. Must be called in a process with one thread; the signals stay blocked in it.
void serve_page(PageData& data, int port, const std::function<void(int)>& listening);

}  // namespace wmtp
