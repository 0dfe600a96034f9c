#include "cli/log/run_words.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "experiment/load/sweep.hpp"

namespace wmtp {
namespace {

std::vector<int64_t> newest_of_each_seed(const LogReader& log, const std::string& name) {
  std::vector<int64_t> runs;
  log.each_row("SELECT max(id) FROM runs WHERE name = ?1 GROUP BY seed ORDER BY min(id)", {name},
               [&](const Statement& row) { runs.push_back(row.integer(0)); });
  return runs;
}

std::vector<int64_t> logged_runs(const LogReader& log, const std::string& file, const GlobalOptions& globals) {
  const RunsOfFile found = runs_of_file(file, globals);
  if (!found.is_sweep) return {log.resolve_run(found.names.front())};
  std::vector<int64_t> runs;
  for (const std::string& name : found.names) {
    const std::vector<int64_t> members = newest_of_each_seed(log, name);
    if (members.empty()) log_warning(file + ": no run of " + name + " in the log");
    runs.insert(runs.end(), members.begin(), members.end());
  }
  if (runs.empty()) throw Error(ExitStatus::usage, file + ": none of its members is in the log; run it first");
  return runs;
}

/// The newest run of each member, NAME-KEY-VALUE with a seed, if no run has the sweep's own name.
std::vector<int64_t> runs_of_sweep(const LogReader& log, const std::string& name) {
  std::vector<int64_t> runs;
  log.each_row(
      "SELECT max(id) FROM runs WHERE substr(name, 1, length(?1) + 1) = ?1 || '-' "
      "AND NOT EXISTS (SELECT 1 FROM runs WHERE name = ?1 OR CAST(id AS TEXT) = ?1) "
      "GROUP BY name, seed ORDER BY min(id)",
      {name}, [&](const Statement& row) { runs.push_back(row.integer(0)); });
  return runs;
}

/// The runs of one word.
std::vector<int64_t> runs_of(const LogReader& log, const std::string& word, const GlobalOptions& globals) {
  if (word.ends_with(".toml")) return logged_runs(log, word, globals);
  const std::vector<int64_t> members = runs_of_sweep(log, word);
  return members.empty() ? std::vector{log.resolve_run(word)} : members;
}

}  // namespace

RunsOfFile runs_of_file(const std::string& file, const GlobalOptions& globals) {
  SourceTexts texts;
  const Catalog catalog(globals.plugin_folders);
  std::vector<SweepMember> members = read_sweep(file, {}, texts);
  RunsOfFile found{{}, !members.empty()};
  if (members.empty()) members.emplace_back();
  for (const SweepMember& member : members) {
    JobRequest request;
    globals.add_to(request);
    request.file = file;
    request.overrides = member.overrides;
    request.name_suffix = member.suffix;
    const std::string name = make_job(request, catalog, texts).experiment.name;
    if (std::ranges::find(found.names, name) == found.names.end()) found.names.push_back(name);
  }
  return found;
}

std::vector<int64_t> selected_runs(const LogReader& log, const std::vector<std::string>& words,
                                   const GlobalOptions& globals) {
  std::vector<int64_t> runs;
  for (const std::string& word : words)
    for (const int64_t run : runs_of(log, word, globals))
      if (std::ranges::find(runs, run) == runs.end()) runs.push_back(run);
  return runs;
}

}  // namespace wmtp
