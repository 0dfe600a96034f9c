// Answers requests for the page, independently of the transport: files, JSON, or a refusal.
//
// Against DNS rebinding (a foreign page whose name resolves to 127.0.0.1): the request's Host must be a name of the
// loopback, with any port, because `ssh -L` and containers forward others; and so must the Origin of the requesting
// page, if present. Only a page of that very host and port may change something.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "ui/page_data.hpp"

namespace wmtp {

struct PageResponse {
  int status = 200;
  std::string type, body;
  std::vector<SharedText> more = {};  ///< follows the body
};

using PageParameters = std::multimap<std::string, std::string>;

/// `host` and `origin` from the headers, "" if missing. localhost, 127.0.0.0/8 and [::1] are names of the loopback.
bool is_own_page(const std::string& host, const std::string& origin, bool changes_something);

/// {"error": text} with 404 for an unknown path, 400 for invalid parameters, 500 if the log cannot be read. One answer
/// is encoded at a time, because its tree takes several times the memory of its text.
PageResponse handle_page_request(PageData& data, const std::string& path, const PageParameters& parameters);

/// {} after `change`, otherwise its error as in handle_page_request.
PageResponse handle_page_change(const std::function<void()>& change);

}  // namespace wmtp
