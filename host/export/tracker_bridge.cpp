#include "export/tracker_bridge.hpp"

#include <chrono>
#include <sstream>
#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "export/run_export_reader.hpp"
#include "log/records.hpp"
#include "process/python_program.hpp"
#include "process/socket_child.hpp"

namespace wmtp {
namespace {

constexpr std::chrono::seconds interval{1};

/// The Python process.
class Bridge {
 public:
  explicit Bridge(const std::string& package)
      : package_(package),
        child_(PythonProgram{"tracker_bridge.py", "sends runs to " + package, package}.request({package}),
               /*has_stdout=*/true) {}  // packages print what they like

  void send(const OrderedJson& message) {
    if (!child_.send_json(message)) refuse(answer());
  }

  /// One line about a run, after everything of it was sent.
  std::string result() {
    const auto message = answer();
    if (!message || !message->contains("result")) refuse(message);
    return message->at("result").get<std::string>();
  }

 private:
  std::optional<Json> answer() {
    constexpr size_t longest = 1 << 20;
    return child_.receive_json(/*limit_ms=*/-1, longest);
  }

  [[noreturn]] void refuse(const std::optional<Json>& message) {
    throw Error(ExitStatus::usage, message && message->contains("failed")
                                       ? message->at("failed").get<std::string>()
                                       : "the Python process that sends runs to " + package_ + " has ended");
  }

  std::string package_;
  SocketChild child_;
};

OrderedJson typed(const LoggedOption& option) {
  if (!option.number) return option.text;
  if (option.text == "true" || option.text == "false") return option.text == "true";
  if (const auto whole = parsed_number(option.text)) return *whole;
  return *option.number;
}

class RunFollower {
 public:
  RunFollower(const LogReader& log, int64_t run_id, Bridge& bridge) : log_(log), id_(run_id), bridge_(bridge) {}

  /// Sends the run to its end.
  void send() {
    OrderedJson state = read_state();
    bridge_.send({{"run", description(state)}});
    while (true) {
      const bool is_running = state["status"] == "running";
      send_steps(is_running);
      if (!is_running) return bridge_.send({{"end", true}});
      std::this_thread::sleep_for(interval);
      state = read_state();  // before the steps, so that none are missed once the run has ended
      if (state["status"] != "running") bridge_.send(state);
    }
  }

 private:
  OrderedJson read_state() const {
    const std::string status = log_.live_status(id_);  // before the exit code, which a run has once it has ended
    const Table state = log_.query("SELECT exit_code FROM runs WHERE id = ?1", {id_});
    return {{"status", status}, {"exit_code", state.rows.at(0)[0]}};
  }

  OrderedJson description(const OrderedJson& state) const {
    const RunExportReader rows(log_, id_);
    const Table first = log_.query(
        "SELECT id, started_at FROM runs WHERE id = (SELECT min(segment) FROM v_lineage WHERE run_id = ?1)", {id_});
    OrderedJson about, config, tags = OrderedJson::array();
    for (const char* column : {"id", "pipeline", "adapter", "config_hash", "git_commit", "version", "host", "device",
                               "world_size", "strategy", "precision"})
      about[column] = rows.column(column);
    for (const LoggedOption& option : rows.options()) config[option.key] = typed(option);
    std::istringstream words(rows.text("tags"));
    for (std::string tag; words >> tag;) tags.push_back(tag);
    OrderedJson run = {{"id", id_},
                       {"name", rows.text("name")},
                       {"about", about},
                       {"config", config},
                       {"tags", tags},
                       {"note", rows.text("note")},
                       {"key", tracked_run_id(log_.database(), first.rows.at(0)[0].get<int64_t>(),
                                              first.rows.at(0)[1].get<std::string>())}};
    run.update(state);
    return run;
  }

  /// Sends the steps after the last sent one; of a running run, those before the newest.
  void send_steps(bool is_running) {
    OrderedJson step;
    const auto finish = [&] {
      if (step.is_null()) return;
      bridge_.send(step);
      sent_ = step["step"].get<int64_t>();
    };
    const auto on_row = [&](const Statement& row) {
      if (step.is_null() || step["step"] != row.integer(0)) {
        finish();
        step = {{"step", row.integer(0)}, {"seconds", double(row.integer(4)) / 1e9}, {"values", OrderedJson::object()}};
      }
      const double value = logged_number(row, 2, 3);
      const char* kind = non_finite_name(value);
      step["values"][row.text(1)] = kind ? OrderedJson(kind) : OrderedJson(value);
    };
    log_.each_row(
        "SELECT step, name, value, kind, time_ns FROM v_curves WHERE run_id = ?1 AND step > ?2 ORDER BY step, name",
        {id_, sent_}, on_row, LogReader::unlimited);
    if (!is_running) finish();
  }

  const LogReader& log_;
  int64_t id_;
  Bridge& bridge_;
  int64_t sent_ = -1;
};

}  // namespace

void send_to_tracker(const LogReader& log, const std::vector<int64_t>& runs, const std::string& package,
                     const std::function<void(const std::string&)>& report_line) {
  Bridge bridge(package);
  for (const int64_t run : runs) {
    RunFollower(log, run, bridge).send();
    report_line(bridge.result());
  }
}

}  // namespace wmtp
