// `ui`: the page over HTTP, for this machine only.
//
// Binds to 127.0.0.1; answers GET and HEAD, and only requests from its own pages (routes.hpp). A content security
// policy in every answer keeps the browser from loading anything from other origins.
//
// POST /api/label changes a run, if there is an editor: with its token in the header X-Edit-Token, which other users of
// this machine do not know, and which no foreign page can send.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ui/page_data.hpp"

namespace wmtp {

struct PageEditor {
  std::string token;
  std::function<void(const std::string& body)> change;  ///< Error(usage) if the body is invalid [any thread]
};

/// Serves until SIGINT or SIGTERM. `listening` receives the port, which is chosen here if `port` is 0. Error(usage) if
/// the port is not available. Call from a single-threaded process; the signals stay blocked in it.
void serve_page(PageData& data, int port, const std::optional<PageEditor>& editor,
                const std::function<void(int)>& listening);

}  // namespace wmtp
