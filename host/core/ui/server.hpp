// `ui`: the page over HTTP, for this machine only.
//
// Bound to 127.0.0.1, answers GET and HEAD, and only to pages of its own (routes.hpp); a policy in every answer keeps
// the browser from loading anything from elsewhere.
#pragma once

#include <functional>

#include "core/ui/page_data.hpp"

namespace wmtp {

/// Serves until SIGINT or SIGTERM. `listening` is told the port, which was chosen here where `port` is 0. Error(usage)
/// when the port cannot be had. To be called from the only thread of the process; the signals stay blocked in it.
void serve_page(PageData& data, int port, const std::function<void(int)>& listening);

}  // namespace wmtp
