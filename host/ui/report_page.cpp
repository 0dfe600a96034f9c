#include "ui/report_page.hpp"

#include <algorithm>
#include <array>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "ui/routes.hpp"

namespace wmtp {
namespace {

constexpr std::array smoothings{0.0, 0.6, 0.9, 0.99};
constexpr size_t max_sampled_steps = 40;

/// Inside the file, because there is no server to send a policy.
constexpr const char* policy =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n";

/// The curves without smoothing, each with its means under `smooth`, by factor.
OrderedJson all_curves(PageData& data, const std::vector<int64_t>& runs, const OrderedJson& names) {
  CurvesRequest request;
  request.runs = runs;
  for (const auto& name : names) request.names.push_back(name);
  OrderedJson curves = data.curves(request)["curves"];
  for (auto& curve : curves) curve["smooth"] = OrderedJson::object();
  for (const double factor : smoothings) {
    if (factor == 0) continue;
    request.smoothing = factor;
    const OrderedJson smoothed = data.curves(request)["curves"];
    for (const auto& with_mean : smoothed) {
      for (auto& curve : curves) {
        if (curve["run"] != with_mean["run"] || curve["name"] != with_mean["name"]) continue;
        curve["smooth"][OrderedJson(factor).dump()] = with_mean["smooth"];
      }
    }
  }
  return curves;
}

/// The first, the last, and evenly spaced ones in between.
OrderedJson spread(const OrderedJson& steps, size_t most) {
  if (steps.size() <= most) return steps;
  OrderedJson kept = OrderedJson::array();
  for (size_t i = 0; i < most; ++i) kept.push_back(steps[i * (steps.size() - 1) / (most - 1)]);
  return kept;
}

OrderedJson samples_of(PageData& data, int64_t run) {
  OrderedJson sampled = data.sampled(run);
  sampled["steps_in_log"] = sampled["steps"].size();
  sampled["steps"] = spread(sampled["steps"], max_sampled_steps);
  OrderedJson tokens = OrderedJson::array();
  for (const auto& step : sampled["steps"])
    for (const auto& sequence : sampled["sequences"]) tokens.push_back(data.tokens(run, step, sequence));
  return {{"sampled", sampled}, {"tokens", tokens}};
}

OrderedJson report_data(PageData& data, const std::vector<int64_t>& runs) {
  const OrderedJson log = data.runs(runs);
  OrderedJson report{{"made", utc_now()}, {"version", WMTP_VERSION}, {"smoothings", smoothings}};
  report["database"] = log["database"];
  report["runs"] = log["runs"];
  report["curves"] = all_curves(data, runs, log["names"]);
  report["names"] = OrderedJson::array();
  for (const auto& name : log["names"]) {
    const auto has_it = [&](const OrderedJson& curve) { return curve["name"] == name; };
    if (std::any_of(report["curves"].begin(), report["curves"].end(), has_it)) report["names"].push_back(name);
  }
  const OrderedJson configs = OrderedJson::parse(*data.configs());
  report["configs"] = {{"why_no_difference", configs["why_no_difference"]}};
  for (const char* part : {"keys", "quantities"}) {
    OrderedJson& kept = report["configs"][part] = OrderedJson::object();
    for (const auto& [key, values] : configs[part].items())
      for (const int64_t run : runs)
        if (const auto value = values.find(std::to_string(run)); value != values.end()) kept[key][value.key()] = *value;
  }
  report["pages"] = OrderedJson::array();
  for (const int64_t run : runs) report["pages"].push_back(data.run(run));
  report["events"] = data.events(runs);
  report["params"] = OrderedJson::array({data.params(runs)});
  report["memory"] = OrderedJson::array();
  report["samples"] = OrderedJson::array();
  for (const int64_t run : runs) {
    if (runs.size() > 1) report["params"].push_back(data.params({run}));
    report["memory"].push_back(data.memory(run));
    report["samples"].push_back(samples_of(data, run));
  }
  return report;
}

const std::string& page_file(const std::string& name) {
  const auto found = embedded_page().find(name);
  if (found == embedded_page().end())
    throw Error(ExitStatus::bug, "page.html names " + name + ", which is not embedded");
  return found->second;
}

/// Replaces each `before F after` by inside(content of F).
template <class Inside>
std::string each_replaced(const std::string& page, const std::string& before, const std::string& after, Inside inside) {
  std::string made;
  size_t at = 0;
  for (size_t found = page.find(before); found != std::string::npos; found = page.find(before, at)) {
    const size_t name = found + before.size(), end = page.find(after, name);
    made += page.substr(at, found - at) + inside(page_file(page.substr(name, end - name)));
    at = end + after.size();
  }
  return made + page.substr(at);
}

}  // namespace

std::string inside_script(const OrderedJson& value) {
  const std::string text = dumped(value);
  std::string safe;
  safe.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool line_end = text.compare(i, 2, "\xe2\x80") == 0 && (text[i + 2] == '\xa8' || text[i + 2] == '\xa9');
    if (line_end) {
      safe += text[i + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else if (text[i] == '<' || text[i] == '>' || text[i] == '&') {
      safe += text[i] == '<' ? "\\u003c" : text[i] == '>' ? "\\u003e" : "\\u0026";
    } else {
      safe += text[i];
    }
  }
  return safe;
}

std::string with_files_inside(const std::string& page) {
  const std::string styled = each_replaced(page, "<link rel=\"stylesheet\" href=\"", "\">",
                                           [](const std::string& css) { return "<style>\n" + css + "</style>"; });
  return each_replaced(styled, "<script src=\"", "\"></script>",
                       [](const std::string& script) { return "<script>\n" + script + "</script>"; });
}

std::string report_page(PageData& data, const std::vector<int64_t>& runs) {
  std::string page = with_files_inside(page_file("page.html"));
  const std::string head = "<head>\n", body = "<body>\n";
  page.insert(page.find(head) + head.size(), policy);
  page.insert(page.find(body) + body.size(), "<script type=\"application/json\" id=\"report\">" +
                                                 inside_script(report_data(data, runs)) + "</script>\n");
  return page;
}

}  // namespace wmtp
