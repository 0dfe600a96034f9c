#include "ui/routes.hpp"

#include <arpa/inet.h>

#include <functional>
#include <mutex>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr size_t max_runs = 1000, max_names = 100;

[[noreturn]] void refuse(const std::string& name, const std::string& value, const std::string& wanted) {
  throw Error(ExitStatus::usage, "parameter " + name + " is \"" + value + "\", wanted " + wanted);
}

class Parameters {
 public:
  explicit Parameters(const PageParameters& given) : given_(given) {}

  std::string text(const std::string& name) const {
    const auto found = given_.find(name);
    return found == given_.end() ? "" : found->second;
  }
  int64_t integer(const std::string& name) const { return parsed<int64_t>(name, text(name), "an integer"); }
  std::optional<double> number(const std::string& name) const {
    const std::string value = text(name);
    if (value.empty()) return std::nullopt;
    const auto number = parsed<double>(name, value, "a number");
    if (!(number - number == 0)) refuse(name, value, "a finite number");
    return number;
  }
  double between(const std::string& name, double otherwise, double least, double most) const {
    const double value = number(name).value_or(otherwise);
    if (value < least || value > most)
      refuse(name, text(name), "a number from " + std::to_string(least) + " to " + std::to_string(most));
    return value;
  }
  /// "3,4,5"
  std::vector<int64_t> runs() const {
    std::vector<int64_t> runs;
    const std::string all = text("runs");
    for (size_t at = 0; at < all.size();) {
      const size_t end = std::min(all.find(',', at), all.size());
      runs.push_back(parsed<int64_t>("runs", all.substr(at, end - at), "run numbers"));
      at = end + 1;
    }
    if (runs.size() > max_runs) refuse("runs", std::to_string(runs.size()) + " runs", "1000 at most");
    return runs;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    const auto [begin, end] = given_.equal_range("name");
    for (auto name = begin; name != end; ++name) names.push_back(name->second);
    if (names.size() > max_names) refuse("name", std::to_string(names.size()) + " names", "100 at most");
    return names;
  }

 private:
  template <class Number>
  static Number parsed(const std::string& name, const std::string& value, const std::string& wanted) {
    const auto number = parsed_number<Number>(value);
    if (!number) refuse(name, value, wanted);
    return *number;
  }

  const PageParameters& given_;
};

CurvesRequest curves_request(const Parameters& given) {
  CurvesRequest request;
  request.runs = given.runs();
  request.names = given.names();
  request.smoothing = given.between("smoothing", 0, 0, max_smoothing);
  const std::string axis = given.text("x");
  request.axis = axis == "time" ? Axis::time : axis == "tokens" ? Axis::tokens : Axis::step;
  request.from = given.number("from");
  request.to = given.number("to");
  request.cells = size_t(given.between("cells", 800, 10, 10'000));
  return request;
}

RefreshRequest refresh_request(const Parameters& given) {
  RefreshRequest request;
  request.epoch = given.text("epoch");
  request.version = given.integer("version");
  request.cursor = given.integer("since");
  request.event_cursor = given.integer("events_since");
  request.shown = curves_request(given);
  return request;
}

PageResponse json(const OrderedJson& value) { return {200, "application/json", dumped(value)}; }
PageResponse json(std::vector<SharedText> parts) { return {200, "application/json", "", std::move(parts)}; }

using Route = std::function<PageResponse(PageData&, const Parameters&)>;

const std::map<std::string, Route>& routes() {
  static const std::map<std::string, Route> all{
      {"/api/runs", [](PageData& data, const Parameters&) { return json(data.runs_text()); }},
      {"/api/configs", [](PageData& data, const Parameters&) { return json({data.configs()}); }},
      {"/api/run", [](PageData& data, const Parameters& given) { return json(data.run(given.integer("run"))); }},
      {"/api/curves", [](PageData& data, const Parameters& given) { return json(data.curves(curves_request(given))); }},
      {"/api/refresh",
       [](PageData& data, const Parameters& given) { return json(data.refresh(refresh_request(given))); }},
      {"/api/params", [](PageData& data, const Parameters& given) { return json(data.params(given.runs())); }},
      {"/api/events", [](PageData& data, const Parameters& given) { return json(data.events(given.runs())); }},
      {"/api/memory", [](PageData& data, const Parameters& given) { return json(data.memory(given.integer("run"))); }},
      {"/api/studies", [](PageData& data, const Parameters&) { return json(data.studies()); }},
      {"/api/sampled",
       [](PageData& data, const Parameters& given) { return json(data.sampled(given.integer("run"))); }},
      {"/api/tokens",
       [](PageData& data, const Parameters& given) {
         return json(data.tokens(given.integer("run"), given.integer("step"), given.integer("sequence")));
       }},
  };
  return all;
}

std::string content_type(const std::string& file) {
  if (file.ends_with(".html")) return "text/html; charset=utf-8";
  if (file.ends_with(".css")) return "text/css; charset=utf-8";
  return "text/javascript; charset=utf-8";
}

/// Whether a host, with or without a port, is a name of the loopback as browsers write it.
bool is_loopback(std::string host) {
  const size_t colon = host.find(':', host.starts_with('[') ? std::min(host.find(']'), host.size()) : 0);
  if (colon != host.npos) {
    if (!parsed_number<uint16_t>(host.substr(colon + 1))) return false;
    host.resize(colon);
  }
  if (host == "localhost" || host == "[::1]") return true;
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

PageResponse error(int status, const std::string& text) {
  return {status, "application/json", dumped(OrderedJson{{"error", text}})};
}

PageResponse response_or_error(const std::function<PageResponse()>& answer) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  try {
    return answer();
  } catch (const Error& failure) {
    return error(failure.status() == ExitStatus::usage ? 400 : 500, failure.what());
  } catch (const std::exception& failure) {
    return error(500, failure.what());
  }
}

}  // namespace

bool is_own_page(const std::string& host, const std::string& origin, bool changes_something) {
  const std::string scheme = "http://";
  if (!is_loopback(host)) return false;
  if (origin.empty()) return true;
  return changes_something ? origin == scheme + host
                           : origin.starts_with(scheme) && is_loopback(origin.substr(scheme.size()));
}

PageResponse handle_page_request(PageData& data, const std::string& path, const PageParameters& parameters) {
  const auto file = embedded_page().find(path == "/" ? "page.html" : path.substr(std::min<size_t>(1, path.size())));
  if (file != embedded_page().end()) return {200, content_type(file->first), file->second};
  const auto route = routes().find(path);
  if (route == routes().end()) return error(404, "unknown path " + path);
  return response_or_error([&] { return route->second(data, Parameters(parameters)); });
}

PageResponse handle_page_change(const std::function<void()>& change) {
  return response_or_error([&] {
    change();
    return json(OrderedJson::object());
  });
}

}  // namespace wmtp
