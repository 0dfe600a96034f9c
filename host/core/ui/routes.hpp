// What is answered to a request for the page, whatever carries it: files, JSON, or a refusal.
//
// Against DNS rebinding (a foreign page whose name comes to mean 127.0.0.1): the Host that the browser believes to talk
// to must be this machine's own name for itself, and so must the Origin of the page that asks, where one is told.
#pragma once

#include <map>
#include <string>

#include "core/ui/page_data.hpp"

namespace wmtp {

struct PageAnswer {
  int status = 200;
  std::string type, body;
};

using PageParameters = std::multimap<std::string, std::string>;

/// `host` and `origin` as the headers say, "" where there is none.
bool is_own_page(const std::string& host, const std::string& origin, int port);

/// 404 for a path that is not there, 400 for parameters that say nothing, 500 where the log cannot be read; the three
/// as
/// {"error": text}.
PageAnswer answer_page(PageData& data, const std::string& path, const PageParameters& parameters);

/// What JSON may be where text of the log is not UTF-8: U+FFFD stands in its place.
std::string dumped(const PageJson& value);

}  // namespace wmtp
