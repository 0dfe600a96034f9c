#include "study/study_report.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "report/table.hpp"
#include "report/terminal.hpp"

namespace wmtp {
namespace {

using Cells = std::vector<std::string>;

void print_line(std::ostream& out, const Cells& cells) {
  out << '|';
  for (const std::string& cell : cells) out << ' ' << cell << (cell.empty() ? "|" : " |");
  out << '\n';
}

void print_table_of(std::ostream& out, const std::vector<Cells>& lines) {
  print_line(out, lines.front());
  print_line(out, Cells(lines.front().size(), "---"));
  std::for_each(lines.begin() + 1, lines.end(), [&](const Cells& line) { print_line(out, line); });
}

std::string with_deviation(const StudyRow& row) {
  if (row.seeds == 0) return "-";
  return row.seeds == 1 ? printed("%.4g", row.mean) : printed("%.4g ± %.2g", row.mean, row.deviation);
}

std::string interval_text(const std::optional<Interval>& interval) {
  return interval ? printed("[%+.3g, %+.3g]", interval->first, interval->second) : "";
}

std::string difference_text(const PairedDifference& of) {
  if (of.pairs == 0) return "-";
  return printed("%+.3g ", of.mean) + interval_text(of.interval);
}

std::string optional_text(const char* format, const std::optional<double>& value) {
  return value ? printed(format, *value) : "";  // NOLINT: the formats are below
}

/// "worse; diverged in 1 of 3 seeds"
std::string outcome(const Study& study, const StudyRow& row) {
  std::string text = study.is_control(row.member)            ? "control"
                     : row.verdict == StudyVerdict::diverged ? ""  // said below
                                                             : to_string(row.verdict);
  const std::string of = " of " + counted(int64_t(study.seeds.size()), "seed");
  const auto add = [&](int64_t number, const char* what) {
    if (number > 0) text += (text.empty() ? "" : "; ") + (what + (" in " + std::to_string(number)) + of);
  };
  add(row.diverged, "diverged");
  add(row.missing, "missing");
  return text;
}

void print_primary(std::ostream& out, const Study& study, const StudyAnalysis& analysis, const StudyBudget& budget,
                   const std::string& condition) {
  const std::string minus = "minus " + study.control_title();
  std::vector<Cells> lines{{"member", study.metric, minus, "bootstrap", "p", "Holm's p", "effect", "detectable", ""}};
  for (const StudyRow& row : analysis.rows) {
    const StudyMember& member = study.members[row.member];
    if (!row.is_primary || row.budget != budget || member.condition != condition) continue;
    Cells line{member.title, with_deviation(row)};
    if (study.is_control(row.member))
      line.resize(8);
    else
      line.insert(line.end(), {difference_text(row.difference), interval_text(row.difference.bootstrap),
                               optional_text("%.2g", row.difference.p), optional_text("%.2g", row.corrected_p),
                               optional_text("%+.2g", row.effect), optional_text("%.2g", row.smallest)});
    line.push_back(outcome(study, row));
    lines.push_back(std::move(line));
  }
  print_table_of(out, lines);
}

/// The differences at the end: a line for each member, a column for each condition.
void print_conditions(std::ostream& out, const Study& study, const StudyAnalysis& analysis) {
  Cells head{study.metric + " minus " + study.control_title()};
  head.insert(head.end(), study.conditions.begin(), study.conditions.end());
  std::vector<Cells> lines{head};
  for (const StudyRow& row : analysis.rows) {
    if (!row.is_primary || row.budget.unit != BudgetUnit::end || study.is_control(row.member)) continue;
    const StudyMember& member = study.members[row.member];
    auto line = std::ranges::find(lines, member.title, [](const Cells& cells) { return cells.front(); });
    if (line == lines.end()) {
      line = lines.insert(lines.end(), Cells(head.size()));
      line->front() = member.title;
    }
    const auto column = std::ranges::find(study.conditions, member.condition) - study.conditions.begin();
    (*line)[size_t(column) + 1] = difference_text(row.difference) + ", " + outcome(study, row);
  }
  print_table_of(out, lines);
}

void print_explored(std::ostream& out, const Study& study, const StudyAnalysis& analysis) {
  std::vector<Cells> lines{{"member"}};
  for (const StudyMember& member : study.members) lines.push_back({member.name});
  const std::string minus = "minus " + study.control_title();
  for (const StudyRow& row : analysis.rows) {
    if (row.is_primary || row.budget.unit != BudgetUnit::end) continue;
    if (row.member == 0) lines[0].insert(lines[0].end(), {row.metric, minus});
    const bool is_control = study.is_control(row.member);
    lines[1 + row.member].insert(lines[1 + row.member].end(),
                                 {with_deviation(row), is_control ? "" : difference_text(row.difference)});
  }
  print_table_of(out, lines);
}

/// What a run took to its end, mean over the seeds.
void print_costs(std::ostream& out, const Study& study, const StudyResults& results) {
  std::vector<Cells> lines{{"member", "tokens", "operations", "seconds", "tuned"}};
  for (size_t i = 0; i < study.members.size(); ++i) {
    double tokens = 0, operations = 0, seconds = 0, runs = 0;
    std::set<std::string> choices;
    for (const StudyResult* run : results_of(study, results, i)) {
      if (!run || run->diverged || run->steps.empty()) continue;
      ++runs;
      tokens += run->tokens.back();
      operations += spent(*run, BudgetUnit::operations).back();
      seconds += run->seconds.back();
      choices.insert(run->choice.begin(), run->choice.end());
    }
    Cells line{study.members[i].name, "-", "-", "-", one_line(join_names({choices.begin(), choices.end()}))};
    if (runs > 0) {
      line[1] = with_thousands(int64_t(tokens / runs));
      line[2] = printed("%.3g", operations / runs);
      line[3] = printed("%.1f", seconds / runs);
    }
    lines.push_back(std::move(line));
  }
  const auto is_empty = [](const Cells& line) { return line.back().empty(); };
  if (std::all_of(lines.begin() + 1, lines.end(), is_empty))
    for (Cells& line : lines) line.pop_back();
  print_table_of(out, lines);
}

std::string shown_seeds(const std::vector<int64_t>& seeds) {
  std::vector<std::string> texts;
  for (const int64_t seed : seeds) texts.push_back(std::to_string(seed));
  return (seeds.size() == 1 ? "seed " : "seeds ") + join_names(texts);
}

/// What the choices of the tuned keys came to, means over the seeds of the tuning.
void print_tried(std::ostream& out, const Study& study, const StudyResults& results) {
  std::vector<Cells> lines{{"member", "tried"}};
  for (const StudyMember& member : study.members) {
    std::string of_member;
    for (const TriedChoice& tried : results.tried) {
      if (tried.member != member.name) continue;
      const auto mean = mean_value(tried);
      of_member += (of_member.empty() ? "" : "; ") + one_line(join_names(tried.choice)) + ": " +
                   (mean ? printed("%.4g", *mean) : std::string("-"));
    }
    if (!of_member.empty()) lines.push_back({member.name, of_member});
  }
  if (lines.size() == 1) return;
  out << "\nTuned by " << study.metric << " at the end, " << shown_seeds(study.tuning.seeds) << ":\n\n";
  print_table_of(out, lines);
}

/// Of the runs with the study's seeds, by the plan; nullopt if it did not know.
std::optional<double> planned_hours(const Study& study, const Json& members) {
  double seconds = 0;
  for (const auto& [name, member] : members.items()) {
    const Json of_run = member.value("seconds", Json());
    if (!of_run.is_number()) return std::nullopt;
    seconds += of_run.get<double>() * double(study.seeds.size());
  }
  return seconds / 3600;
}

/// What was planned, what came out, and how the study changed after it was begun.
void print_plan_kept(std::ostream& out, const Study& study, const StudyResults& results,
                     const StudyAnalysis& analysis) {
  const Json estimate = results.plan.value("estimate", Json::object());
  const auto text = [&](const char* key) { return one_line(results.plan.value(key, "")); };
  out << '\n';
  if (estimate.empty()) {
    out << "Begun " << text("begun_at") << " without a plan.\n";
  } else {
    double seconds = 0;
    for (const StudyResult& run : results.runs) seconds += run.seconds.empty() ? 0 : run.seconds.back();
    const Json hours = estimate.value("hours", Json());
    int64_t runs = 0, in_log = 0;
    const Json planned_members = estimate.value("members", Json::object());
    for (const auto& [name, member] : planned_members.items()) {
      runs += member.value("runs", int64_t{0});
      in_log += member.value("runs_in_log", int64_t{0});
    }
    const auto of_seeds = planned_hours(study, planned_members);
    out << "Planned " << text("planned_at")
        << (in_log == 0 ? ", before the first run: "
                        : ", with " + std::to_string(in_log) + " of " + std::to_string(runs) + " runs in the log: ")
        << (hours.is_number() ? printed("%.2g hours", hours.get<double>()) : std::string("unknown hours"))
        << (of_seeds ? printed(", all runs with its seeds %.2g", *of_seeds) : std::string())
        << printed("; these came to %.2g hours of steps.\n", seconds / 3600);
    for (const StudyRow& row : analysis.rows) {
      if (!row.is_primary || row.budget.unit != BudgetUnit::end || !row.smallest) continue;
      const std::string& name = study.members[row.member].name;
      const Json planned = planned_members.value(name, Json::object());
      const Json smallest = planned.value("smallest_difference_by_holm", Json());
      out << "- " << name << ": planned to show "
          << (smallest.is_number() ? printed("%.2g", smallest.get<double>()) : std::string("an unknown difference"))
          << printed(", came out: %.2g\n", *row.smallest);
    }
  }
  const Json changes = results.plan.value("changes", Json::array());
  if (changes.empty()) return;
  out << "\n**Changed after the first run** (" << text("begun_at") << "):\n";
  for (const Json& change : changes) out << "- " << one_line(change.get<std::string>()) << '\n';
}

void print_looks(std::ostream& out, const Study& study) {
  std::vector<std::string> stops;
  for (const int64_t stop : study.stops) stops.push_back(std::to_string(stop));
  out << "Could stop at " << join_names(stops) << " seeds, if all comparisons were decided: each look decides at "
      << printed("%.2g%%, and ", 100 * test_level / double(study.looks()))
      << (std::ranges::find(study.stops, int64_t(study.seeds.size())) != study.stops.end()
              ? "this one did.\n\n"
              : "the study took all its seeds.\n\n");
}

/// Seconds of two machines, or devices, say nothing about the members.
void print_machines(std::ostream& out, const Study& study, const StudyResults& results) {
  std::vector<int64_t> mixed;
  for (const int64_t seed : study.seeds) {
    std::set<std::string> machines;
    for (const StudyResult& run : results.runs)
      if (run.seed == seed) machines.insert(run.machine + " " + run.device);
    if (machines.size() > 1) mixed.push_back(seed);
  }
  if (!mixed.empty())
    out << "\nRan on several machines, so that seconds are not comparable: " << shown_seeds(mixed) << '\n';
}

Json interval_json(const std::optional<Interval>& interval, bool high) {
  return interval ? Json(high ? interval->second : interval->first) : Json();
}

}  // namespace

void print_markdown(std::ostream& out, const Study& study, const StudyResults& results, const StudyAnalysis& analysis) {
  if (study.has_conditions()) {
    out << "Differences in " << study.metric << " at the end, by condition:\n\n";
    print_conditions(out, study, analysis);
    out << '\n';
  }
  for (const StudyBudget& budget : study.budgets)
    for (const std::string& condition : study.conditions) {
      out << study.metric << " (" << (study.lower_is_better ? "lower" : "higher") << " is better) at "
          << title_of(budget) << ", " << (condition.empty() ? "" : condition + ", ") << shown_seeds(study.seeds)
          << ":\n\n";
      print_primary(out, study, analysis, budget, condition);
      out << '\n';
    }
  if (study.metrics().size() > 1) {
    out << "Explored, at the end:\n\n";
    print_explored(out, study, analysis);
    out << '\n';
  }
  if (!study.stops.empty()) print_looks(out, study);
  out << "To the end of a run:\n\n";
  print_costs(out, study, results);
  print_tried(out, study, results);
  print_machines(out, study, results);
  if (results.plan.is_object()) print_plan_kept(out, study, results, analysis);
}

Table analysis_table(const Study& study, const StudyAnalysis& analysis) {
  Table table{{"member",         "metric",    "role",        "budget",     "seeds",      "diverged", "missing",
               "mean",           "deviation", "pairs",       "difference", "low",        "high",     "bootstrap_low",
               "bootstrap_high", "p",         "corrected_p", "effect",     "could_show", "verdict"},
              {},
              false};
  for (const StudyRow& row : analysis.rows) {
    const PairedDifference& d = row.difference;
    const bool is_control = study.is_control(row.member), has_value = row.seeds > 0;
    table.rows.push_back({study.members[row.member].name,
                          row.metric,
                          row.is_primary ? "primary" : "explored",
                          title_of(row.budget),
                          row.seeds,
                          row.diverged,
                          row.missing,
                          has_value ? Json(row.mean) : Json(),
                          row.seeds > 1 ? Json(row.deviation) : Json(),
                          is_control ? Json() : Json(d.pairs),
                          d.pairs > 0 ? Json(d.mean) : Json(),
                          interval_json(d.interval, false),
                          interval_json(d.interval, true),
                          interval_json(d.bootstrap, false),
                          interval_json(d.bootstrap, true),
                          d.p,
                          row.corrected_p,
                          row.effect,
                          row.smallest,
                          is_control ? "control" : to_string(row.verdict)});
  }
  return table;
}

OrderedJson report_json(const Study& study, const StudyResults& results, const StudyAnalysis& analysis) {
  OrderedJson json{{"study", study.name},
                   {"hash", results.hash},
                   {"definition", results.definition},
                   {"inputs", results.inputs},
                   {"plan", results.plan},
                   {"tried", OrderedJson::array()},
                   {"results", OrderedJson::array()},
                   {"analysis", OrderedJson::array()}};
  for (const TriedChoice& tried : results.tried) json["tried"].push_back(to_json(tried));
  for (const StudyResult& result : results.runs) json["results"].push_back(to_json(result));
  const Table table = analysis_table(study, analysis);
  for (size_t i = 0; i < table.rows.size(); ++i) json["analysis"].push_back(row_object(table, i));
  return json;
}

}  // namespace wmtp
