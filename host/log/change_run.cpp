#include "log/change_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/files.hpp"
#include "base/text.hpp"
#include "io/run_lock.hpp"
#include "log/maintenance.hpp"
#include "log/run_folders.hpp"

namespace wmtp {

namespace fs = std::filesystem;

namespace {

constexpr size_t max_name_length = 64;  // as `name` in an experiment

void check_name(const std::string& name) {
  const auto is_good = [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; };
  if (!name.empty() && name.size() <= max_name_length && std::isalnum(uint8_t(name[0])) &&
      std::all_of(name.begin(), name.end(), is_good))
    return;
  throw Error(ExitStatus::usage,
              "found the name " + printable(name) +
                  ", wanted at most 64 letters, digits, '.', '_' and '-', the first a letter or digit");
}

RunInfo find_ended_run(const LogReader& log, int64_t run_id) {
  const RunInfo run = log.run(run_id);
  if (run.status == "running" || RunLock::is_held(run.folder))
    throw Error(ExitStatus::usage, "run " + std::to_string(run_id) + " (" + run.name + ") is running; stop it first");
  return run;
}

struct Move {
  fs::path from, to;
};

/// Changes rows by `change_rows`, which calls its argument before it commits: this renames the folders that exist,
/// after any wait for a lock of the log, in which a user may end the program. Renames them back if one cannot be
/// renamed or the rows cannot be changed.
void change_run(const std::vector<Move>& folders,
                const std::function<void(const std::function<void()>&)>& change_rows) {
  std::vector<Move> moved;
  const auto rename_folders = [&] {
    for (const Move& move : folders) {
      std::error_code error;
      if (!fs::exists(move.from, error) || move.from == move.to) continue;
      fs::rename(move.from, move.to, error);
      if (error) throw Error(ExitStatus::storage, move.from.string() + ": " + error.message());
      moved.push_back(move);
    }
  };
  try {
    change_rows(rename_folders);
  } catch (...) {
    std::error_code ignored;
    for (const Move& move : moved) fs::rename(move.to, move.from, ignored);
    throw;
  }
}

/// The newest segments of the runs that contain this one: several if it was resumed more than once.
std::vector<int64_t> runs_of_segment(const LogReader& log, int64_t segment) {
  std::vector<int64_t> runs;
  log.each_row(
      "WITH RECURSIVE later (id) AS (VALUES (?1) UNION SELECT r.id FROM later AS l JOIN runs AS r "
      "ON r.parent_run = l.id AND r.id > l.id) "
      "SELECT id FROM later WHERE NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.parent_run = later.id "
      "AND r.id > later.id) ORDER BY id",
      {segment}, [&](const Statement& row) { runs.push_back(row.integer(0)); });
  return runs;
}

std::vector<int64_t> segments_of(const LogReader& log, int64_t run) {
  std::vector<int64_t> segments;
  log.each_row("SELECT segment FROM v_lineage WHERE run_id = ?1 ORDER BY segment", {run},
               [&](const Statement& row) { segments.push_back(row.integer(0)); });
  return segments;
}

std::vector<std::string> as_texts(const std::vector<int64_t>& numbers) {
  std::vector<std::string> texts;
  for (const int64_t number : numbers) texts.push_back(std::to_string(number));
  return texts;
}

}  // namespace

std::vector<RunToDelete> find_runs_to_delete(const LogReader& log, const std::vector<int64_t>& run_ids) {
  std::set<int64_t> newest;  // segments of the runs
  for (const int64_t id : run_ids)
    if (const std::vector<int64_t> runs = runs_of_segment(log, id); runs.size() == 1) newest.insert(runs.front());
  const auto stays = [&](int64_t run) { return !newest.contains(run); };
  for (const int64_t id : run_ids) {
    const std::vector<int64_t> runs = runs_of_segment(log, id);
    if (std::any_of(runs.begin(), runs.end(), stays))
      throw Error(ExitStatus::usage, "run " + std::to_string(id) + " (" + log.run(id).name + ") is a segment of runs " +
                                         join_names(as_texts(runs)) + "; name those to delete");
  }
  std::vector<RunToDelete> found;
  std::set<int64_t> taken;
  for (const int64_t run : newest) {
    RunToDelete& one = found.emplace_back();
    for (const int64_t segment : segments_of(log, run)) {
      const std::vector<int64_t> runs = runs_of_segment(log, segment);
      if (std::any_of(runs.begin(), runs.end(), stays)) {
        one.kept.push_back(segment);
      } else if (taken.insert(segment).second) {
        const RunInfo info = find_ended_run(log, segment);
        one.segments.push_back({info, bytes_below(info.folder), read_run_key(log.database(), segment)});
      }
    }
  }
  return found;
}

std::string what_is_deleted(const RunToDelete& run) {
  std::vector<std::string> earlier, folders;
  int64_t bytes = 0;
  for (const SegmentToDelete& segment : run.segments) {
    if (segment.id != run.segments.back().id) earlier.push_back(std::to_string(segment.id));
    folders.push_back(segment.folder.string());
    bytes += segment.bytes;
  }
  const SegmentToDelete& newest = run.segments.back();
  std::string text = "run " + std::to_string(newest.id) + " (" + newest.name + ")";
  if (!earlier.empty())
    text += (earlier.size() == 1 ? " with its segment " : " with its segments ") + join_names(earlier);
  text +=
      (earlier.empty() ? ": its rows and " : ": their rows and ") + human_bytes(bytes) + " in " + join_names(folders);
  if (!run.kept.empty())
    text += "; its beginning stays in run " + join_names(as_texts(run.kept)) + ", which another run continues";
  return text;
}

void delete_run(const fs::path& database, const RunToDelete& run) {
  std::vector<Move> folders;
  std::vector<KeyedRun> rows;
  for (const SegmentToDelete& segment : run.segments) {
    folders.push_back({segment.folder, segment.folder.string() + ".deleted-" + std::to_string(getpid())});
    rows.push_back({segment.id, segment.key});
  }
  change_run(folders, [&](const auto& rename_folders) { delete_rows(database, rows, rename_folders); });
  for (const Move& folder : folders) {
    std::error_code error;
    fs::remove_all(folder.to, error);
    if (error)
      throw Error(ExitStatus::storage,
                  "the run was deleted, but some files remain: " + folder.to.string() + ": " + error.message());
  }
}

void rename_run(const fs::path& database, int64_t run_id, const std::string& name) {
  check_name(name);
  const RunInfo run = find_ended_run(LogReader(database), run_id);
  const fs::path folder = run_folder_path(database, run_id, name);
  std::error_code ignored;
  if (folder != run.folder && fs::exists(run.folder, ignored) && fs::exists(folder, ignored))
    throw Error(ExitStatus::storage, folder.string() + " already exists; move it away, or choose another name");
  change_run({{run.folder, folder}}, [&](const auto& rename_folder) {
    rename_rows(database, run_id, name, run.folder.filename().string(), folder.filename().string(), rename_folder);
  });
}

}  // namespace wmtp
