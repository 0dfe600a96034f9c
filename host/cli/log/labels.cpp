// `runs note`, `tag`, `archive` and `rename`: what a user adds to runs of the log, also on the page.
#include <algorithm>
#include <iterator>
#include <memory>
#include <sstream>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "log/change_run.hpp"
#include "log/log_reader.hpp"
#include "log/maintenance.hpp"
#include "report/runs.hpp"

namespace wmtp {
namespace {

constexpr size_t max_note_length = 10'000, max_tag_length = 64;

struct Options {
  std::string run, text;
  std::vector<std::string> runs, add, remove;
  bool undo = false;
};

// The runs are read before the log is opened for writing.

int64_t run_of(const GlobalOptions& globals, const std::string& word) {
  return LogReader(globals.database_or(default_database)).resolve_run(word);
}

std::vector<int64_t> runs_of(const GlobalOptions& globals, const std::vector<std::string>& words) {
  return distinct_runs(LogReader(globals.database_or(default_database)), words);
}

void check_tag(const std::string& tag) {
  const bool is_word = !tag.empty() && tag.find_first_of(" \t\r\n,") == std::string::npos;
  if (!is_word || shown_length(tag) > max_tag_length)
    throw Error(ExitStatus::usage, "found the tag " + printable(tag) + ", wanted one word of at most " +
                                       std::to_string(max_tag_length) + " characters, without commas");
}

void check_note(const std::string& note) {
  if (shown_length(note) > max_note_length)
    throw Error(ExitStatus::usage, "found a note of " + with_thousands(int64_t(shown_length(note))) +
                                       " characters, wanted at most " + with_thousands(max_note_length));
}

int note(const Options& options, const GlobalOptions& globals) {
  check_note(options.text);
  const int64_t run = run_of(globals, options.run);
  set_note(globals.database_or(default_database), run, options.text);
  log_info("run " + std::to_string(run) + (options.text.empty() ? ": note removed" : ": note written"));
  return 0;
}

int tag(const Options& options, const GlobalOptions& globals) {
  if (options.add.empty() && options.remove.empty())
    throw Error(ExitStatus::usage, "found no tag; give --add TAG or --remove TAG");
  for (const std::string& one : options.add) check_tag(one);
  const std::filesystem::path database = globals.database_or(default_database);
  for (const int64_t run : runs_of(globals, options.runs)) {
    change_tags(database, run, options.add, options.remove);
    const Table tags = LogReader(database).query("SELECT coalesce(tags, '') FROM v_runs WHERE id = ?1", {run}, 1);
    const std::string now = tags.rows.at(0)[0];
    log_info("run " + std::to_string(run) + (now.empty() ? " has no tags" : " has the tags " + now));
  }
  return 0;
}

int archive(const Options& options, const GlobalOptions& globals) {
  for (const int64_t run : runs_of(globals, options.runs)) {
    set_archived(globals.database_or(default_database), run, !options.undo);
    log_info("run " + std::to_string(run) + (options.undo ? " is listed again" : " is archived: hidden from lists"));
  }
  return 0;
}

int rename(const Options& options, const GlobalOptions& globals) {
  const int64_t run = run_of(globals, options.run);
  rename_run(globals.database_or(default_database), run, options.text);
  log_info("run " + std::to_string(run) + " is now " + options.text);
  return 0;
}

/// The tags of a text, separated by spaces.
std::vector<std::string> tags_in(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> tags{std::istream_iterator<std::string>(words), {}};
  std::for_each(tags.begin(), tags.end(), check_tag);
  return tags;
}

}  // namespace

void change_labels(const std::filesystem::path& database, const std::string& change) {
  const Json wanted = Json::parse(change, nullptr, /*allow_exceptions=*/false);
  const auto is = [&](const char* key, Json::value_t type) {
    return wanted.contains(key) && wanted[key].type() == type;
  };
  const bool is_whole = wanted.is_object() && wanted.size() == 5 && is("run", Json::value_t::number_unsigned) &&
                        is("name", Json::value_t::string) && is("tags", Json::value_t::string) &&
                        is("note", Json::value_t::string) && is("archived", Json::value_t::boolean);
  if (!is_whole)
    throw Error(ExitStatus::usage, "wanted a JSON object of run (a number), name, tags, note (strings) and archived");
  const LogReader log(database);
  const int64_t run = log.resolve_run(std::to_string(wanted["run"].get<int64_t>()));
  const std::string name = wanted["name"], text = wanted["note"];
  const std::vector<std::string> tags = tags_in(wanted["tags"]);
  check_note(text);

  const Table before = log.query("SELECT name, coalesce(tags, '') FROM v_runs WHERE id = ?1", {run});
  if (name != before.rows.at(0).at(0)) rename_run(database, run, name);
  std::vector<std::string> removed = tags_in(before.rows[0].at(1));
  std::erase_if(removed,
                [&](const std::string& tag) { return std::find(tags.begin(), tags.end(), tag) != tags.end(); });
  change_tags(database, run, tags, removed);
  set_note(database, run, text);
  set_archived(database, run, wanted["archived"]);
}

void add_labels(CommandLine& line) {
  const auto options = std::make_shared<Options>();
  const auto action = [options](int (*run)(const Options&, const GlobalOptions&)) {
    return reading_log([options, run](const GlobalOptions& globals) { return run(*options, globals); });
  };

  auto& notes = line.add("runs note",
                         "write a note to a run\n\n"
                         "Replaces an earlier note; an empty text removes it.\n\n"
                         "example:\n  wmtp-host runs note 3 \"twice the batch; loss spikes at step 400\"\n",
                         action(note));
  add_option(notes, "RUN", options->run, run_argument, required);
  add_option(notes, "TEXT", options->text, "text of the note", required);

  auto& tags = line.add("runs tag",
                        "add tags to runs, or remove them\n\n"
                        "examples:\n"
                        "  wmtp-host runs tag 3 4 --add paper\n"
                        "  wmtp-host runs list --tag paper\n",
                        action(tag));
  add_option(tags, "RUN", options->runs, runs_argument, required);
  add_option(tags, "--add TAG", options->add, "may be repeated", repeatable);
  add_option(tags, "--remove TAG", options->remove, "may be repeated", repeatable);

  auto& archives = line.add("runs archive",
                            "hide runs from lists and from the page\n\n"
                            "Rows and files stay; commands that name the run find it as before.\n\n"
                            "examples:\n"
                            "  wmtp-host runs archive 3 4\n"
                            "  wmtp-host runs archive 3 --undo\n",
                            action(archive));
  add_option(archives, "RUN", options->runs, runs_argument, required);
  archives.add_flag("--undo", options->undo, "list them again");

  auto& renames = line.add("runs rename",
                           "rename a run and its folder\n\n"
                           "Experiments that name it as run:NAME must be changed too.\n\n"
                           "example:\n  wmtp-host runs rename 3 rho1-long\n",
                           action(rename));
  add_option(renames, "RUN", options->run, run_argument, required);
  add_option(renames, "NAME", options->text, "new name", required);
}

}  // namespace wmtp
