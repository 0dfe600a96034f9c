#include "report/watch.hpp"

#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "report/summary.hpp"
#include "report/table.hpp"

namespace wmtp {
namespace {

constexpr std::chrono::milliseconds poll_interval{100};

class Watch {
 public:
  Watch(std::ostream& out, const LogReader& log, const WatchRequest& request)
      : out_(out), log_(log), request_(request) {}

  int run() {
    step_ = newest("train/loss") - 1;  // earlier steps are not shown
    validated_ = newest("valid/loss") - 1;
    while (true) {
      const OrderedJson state = run_state();  // read before the steps, so that none are missed once the run has ended
      show_new_steps();
      if (state["status"] != "running") return ended(state);
      for (auto waited = std::chrono::milliseconds(0); waited < request_.interval; waited += poll_interval) {
        if (request_.stopped()) return 0;
        std::this_thread::sleep_for(poll_interval);
      }
    }
  }

 private:
  int64_t newest(const std::string& metric) const {
    return log_
        .query("SELECT coalesce(max(step), -1) FROM metrics WHERE run_id = ?1 AND name = ?2", {request_.run_id, metric})
        .rows.at(0)
        .at(0);
  }

  OrderedJson run_state() const {
    OrderedJson state = row_object(
        log_.query("SELECT name, exit_code, seconds, tokens_per_second FROM v_runs WHERE id = ?1", {request_.run_id}),
        0);
    state["status"] = log_.live_status(request_.run_id);
    return state;
  }

  void show_new_steps() {
    const Table steps = log_.query(
        "SELECT loss.step, loss.value, speed.value FROM metrics AS loss LEFT JOIN metrics AS speed "
        "ON speed.run_id = loss.run_id AND speed.step = loss.step AND speed.name = 'perf/tokens_per_second' "
        "WHERE loss.run_id = ?1 AND loss.step > ?2 AND loss.name = 'train/loss' "
        "ORDER BY loss.step",
        {request_.run_id, step_});
    for (const auto& row : steps.rows) {
      step_ = row[0];
      show_step(row);
    }
    // They are logged after their step.
    const Table validations = log_.query(
        "SELECT step, value FROM metrics WHERE run_id = ?1 AND step > ?2 "
        "AND name = 'valid/loss' ORDER BY step",
        {request_.run_id, validated_});
    for (const auto& row : validations.rows) {
      validated_ = row[0];
      show_validation(row);
    }
    out_.flush();
  }

  void show_step(const std::vector<Json>& row) {
    if (request_.json) {
      out_ << OrderedJson{{"step", row[0]}, {"train_loss", row[1]}, {"tokens_per_second", row[2]}}.dump() << '\n';
      return;
    }
    out_ << "step " << shown(row[0]) << "  loss " << shown(row[1]);
    if (row[2].is_number()) out_ << "  " << with_thousands(int64_t(row[2].get<double>())) << " tokens/s";
    out_ << '\n';
  }

  void show_validation(const std::vector<Json>& row) {
    if (request_.json)
      out_ << OrderedJson{{"step", row[0]}, {"valid_loss", row[1]}}.dump() << '\n';
    else
      out_ << "step " << shown(row[0]) << ": validation loss " << shown(row[1]) << '\n';
  }

  int ended(const OrderedJson& state) {
    const std::string status = state["status"];
    const bool lost = status == "lost";
    const int code = lost ? int(ExitStatus::peer) : state["exit_code"].get<int>();
    if (request_.json)
      out_ << OrderedJson{{"status", status}, {"exit_code", lost ? Json() : Json(code)}}.dump() << '\n';
    else
      out_ << state["name"].get<std::string>() << ": " << status << " after "
           << human_whole_seconds(state["seconds"].is_number() ? state["seconds"].get<double>() : 0)
           << (lost ? " (no heartbeat for a minute)" : "")
           << (state["tokens_per_second"].is_number() ? ", " + speed_text(state["tokens_per_second"], nullptr) : "")
           << '\n';
    return code;
  }

  std::ostream& out_;
  const LogReader& log_;
  const WatchRequest& request_;
  int64_t step_ = 0, validated_ = 0;  ///< last steps shown
};

}  // namespace

int watch_run(std::ostream& out, const LogReader& log, const WatchRequest& request) {
  return Watch(out, log, request).run();
}

}  // namespace wmtp
