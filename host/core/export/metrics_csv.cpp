// See tables.hpp.
#include <charconv>
#include <string>

#include "core/export/logged_run.hpp"
#include "core/export/tables.hpp"
#include "core/runlog/records.hpp"

namespace wmtp {
namespace {

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string all_digits(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

void write_metrics_csv(const LogReader& log, const std::vector<int64_t>& runs, const TextOutput& out) {
  out("run_id,run,step,name,value,kind,time_ns\r\n");
  for (const int64_t run : runs) {
    const LoggedRunRows rows(log, run);
    const std::string head = std::to_string(run) + "," + field(rows.text("name")) + ",";
    for (const std::string& name : rows.metric_names()) {
      const std::string metric = "," + field(name) + ",";
      rows.each_point(name, [&](const LoggedPoint& point) {
        const char* kind = kind_of(point.value);
        out(head + std::to_string(point.step) + metric + (kind ? std::string(kind) : all_digits(point.value)) + "," +
            (kind ? kind : "") + "," + std::to_string(point.time_ns) + "\r\n");
      });
    }
  }
}

}  // namespace wmtp
