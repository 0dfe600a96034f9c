#include "core/ui/routes.hpp"

#include <functional>
#include <set>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr size_t most_runs = 1000, most_names = 100;

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
    if (runs.size() > most_runs) refuse("runs", std::to_string(runs.size()) + " runs", "1000 at most");
    return runs;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    const auto [begin, end] = given_.equal_range("name");
    for (auto name = begin; name != end; ++name) names.push_back(name->second);
    if (names.size() > most_names) refuse("name", std::to_string(names.size()) + " names", "100 at most");
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
  request.smoothing = given.between("smoothing", 0, 0, most_smoothing);
  const std::string axis = given.text("x");
  request.axis = axis == "time" ? Axis::time : axis == "tokens" ? Axis::tokens : Axis::step;
  request.from = given.number("from");
  request.to = given.number("to");
  request.cells = static_cast<size_t>(given.between("cells", 800, 10, 10'000));
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

using Route = std::function<PageJson(PageData&, const Parameters&)>;

const std::map<std::string, Route>& routes() {
  static const std::map<std::string, Route> all{
      {"/api/runs", [](PageData& data, const Parameters&) { return data.runs(); }},
      {"/api/configs", [](PageData& data, const Parameters&) { return data.configs(); }},
      {"/api/run", [](PageData& data, const Parameters& given) { return data.run(given.integer("run")); }},
      {"/api/curves", [](PageData& data, const Parameters& given) { return data.curves(curves_request(given)); }},
      {"/api/refresh", [](PageData& data, const Parameters& given) { return data.refresh(refresh_request(given)); }},
      {"/api/params", [](PageData& data, const Parameters& given) { return data.params(given.runs()); }},
      {"/api/events", [](PageData& data, const Parameters& given) { return data.events(given.runs()); }},
      {"/api/memory", [](PageData& data, const Parameters& given) { return data.memory(given.integer("run")); }},
      {"/api/sampled", [](PageData& data, const Parameters& given) { return data.sampled(given.integer("run")); }},
      {"/api/tokens",
       [](PageData& data, const Parameters& given) {
         return data.tokens(given.integer("run"), given.integer("step"), given.integer("sequence"));
       }},
  };
  return all;
}

std::string type_of(const std::string& file) {
  if (file.ends_with(".html")) return "text/html; charset=utf-8";
  if (file.ends_with(".css")) return "text/css; charset=utf-8";
  return "text/javascript; charset=utf-8";
}

PageAnswer error(int status, const std::string& text) {
  return {status, "application/json", dumped({{"error", text}})};
}

PageAnswer answer_or_error(const std::function<PageJson()>& answer) {
  try {
    return {200, "application/json", dumped(answer())};
  } catch (const Error& failure) {
    return error(failure.status() == ExitStatus::usage ? 400 : 500, failure.what());
  } catch (const std::exception& failure) {
    return error(500, failure.what());
  }
}

}  // namespace

bool is_own_page(const std::string& host, const std::string& origin, int port) {
  const std::string suffix = port == 80 ? "" : ":" + std::to_string(port);  // browsers omit it
  const std::set<std::string> own{"127.0.0.1" + suffix, "localhost" + suffix};
  return own.contains(host) && (origin.empty() || (origin.starts_with("http://") &&
                                                   own.contains(origin.substr(std::string("http://").size()))));
}

PageAnswer answer_page(PageData& data, const std::string& path, const PageParameters& parameters) {
  const auto file = embedded_page().find(path == "/" ? "page.html" : path.substr(std::min<size_t>(1, path.size())));
  if (file != embedded_page().end()) return {200, type_of(file->first), file->second};
  const auto route = routes().find(path);
  if (route == routes().end()) return error(404, "unknown path " + path);
  return answer_or_error([&] { return route->second(data, Parameters(parameters)); });
}

PageAnswer answer_change(const std::function<void()>& change) {
  return answer_or_error([&] {
    change();
    return PageJson::object();
  });
}

std::string dumped(const PageJson& value) { return value.dump(-1, ' ', false, PageJson::error_handler_t::replace); }

}  // namespace wmtp
