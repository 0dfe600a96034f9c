#include "report/summary.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/text.hpp"
#include "log/log_option.hpp"
#include "report/rank_times.hpp"

namespace wmtp {
namespace {

constexpr int64_t ranks_shown = 8;

std::string percent(double share) { return std::to_string(std::llround(100 * share)) + "%"; }

class Summary {
 public:
  Summary(std::ostream& out, const LogReader& log, int64_t run_id) : out_(out), log_(log), id_(run_id) {}

  void print() {
    const auto run = rows("SELECT name, status, seconds, segments FROM v_runs WHERE id = ?1");
    if (run.empty()) return;
    const auto status = run[0][1].get<std::string>();
    const auto segments = run[0][3].get<int64_t>();
    out_ << "run " << id_ << " (" << run[0][0].get<std::string>() << ") " << status << " after "
         << human_whole_seconds(run[0][2].is_number() ? run[0][2].get<double>() : 0)
         << (segments > 1 ? " in " + counted(segments, "segment") : "");
    if (const std::string result = result_text(log_, id_); !result.empty()) out_ << ": " << result;
    out_ << '\n';
    speed();
    time();
    memory();
    restarts();
    checkpoint();
    out_ << "  next             " << (status == "interrupted" ? "repeat the command with --resume to continue; " : "")
         << "wmtp-host runs show " << id_ << log_option(log_.database()) << '\n';
  }

 private:
  std::vector<std::vector<Json>> rows(const std::string& sql) const { return log_.query(sql, {id_}).rows; }

  void speed() {
    const auto run = rows("SELECT tokens_per_second, mfu, mfu_of FROM v_runs WHERE id = ?1").at(0);
    if (run[0].is_number())
      out_ << "  speed            " << speed_text(run[0], run[1], run[2].get<std::string>()) << '\n';
  }

  /// Phases that took at least 1% of the time, longest first; token heads are added up.
  void time() {
    const auto found = rows(
        "SELECT iif(name GLOB 'time/head_*', 'heads', substr(name, 6)) AS phase, sum(value) AS seconds FROM v_latest "
        "WHERE run_id = ?1 AND name GLOB 'time/*' AND value IS NOT NULL GROUP BY phase ORDER BY seconds DESC");
    double all = 0;
    for (const auto& row : found) all += row[1].get<double>();
    if (all == 0) return;
    std::string text;
    for (const auto& row : found)
      if (const double share = row[1].get<double>() / all; share >= 0.01)
        text += (text.empty() ? "" : ", ") + row[0].get<std::string>() + " " + percent(share);
    const auto slowest = slowest_rank(log_, id_);
    out_ << "  time             " << text << (slowest ? "; " + slowest_rank_text(*slowest) : "") << '\n';
  }

  /// Every rank of a small job; of a larger one the rank with the highest peak.
  void memory() {
    auto peaks = rows(
        "SELECT rank, max(iif(category = 'resident', bytes, NULL)), max(iif(category = 'device_used', bytes, NULL)) "
        "FROM memory WHERE run_id IN (SELECT segment FROM v_lineage WHERE run_id = ?1) AND phase = 'peak' "
        "GROUP BY rank ORDER BY rank");
    std::erase_if(peaks, [](const auto& row) { return !row[1].is_number(); });
    if (peaks.empty()) return;
    const auto ranks = int64_t(peaks.size());
    if (ranks > ranks_shown) {
      const auto of_peak = [](const auto& row) {
        return std::pair(row[2].is_number() ? row[2].template get<int64_t>() : 0, row[1].template get<int64_t>());
      };
      std::swap(peaks.front(), *std::max_element(peaks.begin(), peaks.end(), [&](const auto& a, const auto& b) {
                  return of_peak(a) < of_peak(b);
                }));
      peaks.resize(1);
    }
    out_ << "  peak memory      ";
    for (size_t i = 0; i < peaks.size(); ++i) {
      out_ << (i ? ", " : "") << "rank " << peaks[i][0].get<int64_t>() << ": ";
      if (peaks[i][2].is_number()) out_ << human_bytes(peaks[i][2].get<int64_t>()) << " of the device, ";
      out_ << human_bytes(peaks[i][1].get<int64_t>());
    }
    out_ << " resident" << (ranks > ranks_shown ? ", the most of " + counted(ranks, "rank") : "") << '\n';
  }

  void restarts() {
    const auto lost = rows(
        "SELECT count(*), sum(value) FROM metrics WHERE name = 'perf/lost_seconds' AND run_id IN "
        "(SELECT segment FROM v_lineage WHERE run_id = ?1)");
    if (const auto count = lost.at(0)[0].get<int64_t>(); count > 0)
      out_ << "  restarts         " << count << ", which cost " << human_seconds(lost[0][1].get<double>()) << '\n';
  }

  void checkpoint() {
    const auto newest = rows(
        "SELECT path, bytes FROM checkpoints WHERE run_id IN (SELECT segment FROM v_lineage WHERE run_id = ?1) "
        "AND state = 'kept' ORDER BY run_id DESC, step DESC, time_ns DESC LIMIT 1");
    if (newest.empty()) return;
    out_ << "  checkpoint       " << newest[0][0].get<std::string>() << " (" << human_bytes(newest[0][1].get<int64_t>())
         << ")\n";
  }

  std::ostream& out_;
  const LogReader& log_;
  int64_t id_;
};

}  // namespace

std::string speed_text(const Json& tokens_per_second, const Json& mfu, const std::string& mfu_of) {
  const std::string speed = with_thousands(std::llround(tokens_per_second.get<double>())) + " tokens/s";
  if (!mfu.is_number()) return speed;
  if (mfu.get<double>() > 1 && mfu_of == multiplication)
    return speed + ", faster than the matrix multiplication benchmark (the machine was busy during it)";
  return speed + ", " + percent(mfu.get<double>()) + " of " + mfu_of;
}

Table peaks_by_phase(const LogReader& log, int64_t run_id, int64_t& rank) {
  const auto moments =
      log.query(
             "WITH moments AS (SELECT rank, phase, category, bytes, max(rowid) FROM memory "
             "WHERE run_id = ?1 AND phase NOT IN ('peak', 'live') GROUP BY rank, phase, category), "
             "totals AS (SELECT rank, phase, bytes AS total FROM moments WHERE category = 'allocated') "
             "SELECT m.phase, m.category, m.bytes, m.rank FROM moments AS m JOIN totals AS t USING (rank, phase) "
             "WHERE m.rank = (SELECT rank FROM totals ORDER BY total DESC, rank LIMIT 1) "
             "ORDER BY t.total DESC, m.phase",
             {run_id})
          .rows;
  std::map<std::string, std::map<std::string, int64_t>> bytes;
  std::map<std::string, int64_t> most;
  std::vector<std::string> order;
  for (const auto& row : moments) {
    const auto phase = row[0].get<std::string>(), category = row[1].get<std::string>();
    if (order.empty() || order.back() != phase) order.push_back(phase);
    bytes[phase][category] = row[2].get<int64_t>();
    most[category] = std::max(most[category], row[2].get<int64_t>());
    rank = row[3].get<int64_t>();
  }
  Table table{{"MiB", "allocated"}, {}, false};
  for (const char* category : {"reserved", "device_used", "parameters", "gathered", "gradients", "optimizer",
                               "activations", "logits", "communication", "checkpoint", "other"})
    if (most[category] > 0) table.columns.push_back(category);
  for (const std::string& phase : order) {
    table.rows.push_back({phase});
    for (size_t column = 1; column < table.columns.size(); ++column)
      table.rows.back().push_back(std::round(double(bytes[phase][table.columns[column]]) / (1 << 20) * 10) / 10);
  }
  return table;
}

std::string loss_change_text(double begin, double end) {
  const auto loss = [](double value) { return printed("%.4f", value); };
  const std::string values = loss(begin) + " -> " + loss(end);
  const double by = std::fabs(begin - end);
  if (by == 0) return values + ", unchanged";
  return values + (end < begin ? ", fell by " : ", rose by ") + (by < 5e-5 ? printed("%.1g", by) : loss(by));
}

std::string result_text(const LogReader& log, int64_t run_id) {
  const auto point = [&](const std::string& name, const std::string& order) {
    const std::string sql =
        "SELECT step, value FROM v_curves WHERE run_id = ?1 AND name = ?2 AND value IS NOT NULL ORDER BY step ";
    return log.query(sql + order + " LIMIT 1", {run_id, name}).rows;
  };
  for (const auto& [title, name] : {std::pair("validation loss ", "valid/loss"), {"training loss ", "train/loss"}}) {
    const auto begin = point(name, "ASC"), end = point(name, "DESC");
    if (!begin.empty() && begin[0][0] != end[0][0])  // validated once, it says nothing of the training
      return title + loss_change_text(begin[0][1].get<double>(), end[0][1].get<double>());
  }
  return "";
}

void run_summary(std::ostream& out, const LogReader& log, int64_t run_id) { Summary(out, log, run_id).print(); }

}  // namespace wmtp
