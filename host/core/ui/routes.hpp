// Answers requests for the page, independently of the transport: files, JSON, or a refusal.
//
// Against DNS rebinding (a foreign page whose name resolves to 127.0.0.1): the request's Host must be a name of this
// machine's loopback, and so must the Origin of the requesting page, if present.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/ui/page_data.hpp"

namespace wmtp {

struct PageAnswer {
  int status = 200;
  std::string type, body;
};

using PageParameters = std::multimap<std::string, std::string>;

/// `host` and `origin` from the headers, "" if missing.
bool is_own_page(const std::string& host, const std::string& origin, int port);

/// {"error": text} with 404 for an unknown path, 400 for invalid parameters, 500 if the log cannot be read.
PageAnswer answer_page(PageData& data, const std::string& path, const PageParameters& parameters);

/// {} after `change`, otherwise its error as in answer_page.
PageAnswer answer_change(const std::function<void()>& change);

/// Serializes JSON, replacing invalid UTF-8 from the log with U+FFFD.
std::string dumped(const PageJson& value);

}  // namespace wmtp
