// Commands: how each one registers its words, options and help, and how the line that was typed finds its command.
//
// Every mistake on the line is Error(usage) with the nearest word that is known. The options of all commands may stand
// before or after the command's words.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/job/job_request.hpp"

namespace wmtp {

/// What every command takes.
struct GlobalOptions {
  std::vector<std::filesystem::path> plugin_folders;
  std::string database;  ///< "" when --db was not given
  bool quiet = false;
  bool no_color = false;

  /// --db, else WMTP_DB, else `otherwise`.
  std::filesystem::path database_or(const std::string& otherwise) const;
  void add_to(JobRequest& request) const;
};

class CommandLine {
 public:
  using Action = std::function<int(const GlobalOptions&)>;

  CommandLine();

  /// Words that other commands begin with: "runs". The first line of `help` is shown in lists, all of it by --help.
  void add_group(const std::string& name, const std::string& help);
  /// `words` is "sql" or "runs list". The result takes the command's own options; `action` returns the exit code.
  CLI::App& add(const std::string& words, const std::string& help, Action action);
  /// Not shown in any help.
  CLI::App& add_hidden(const std::string& words, Action action);

  /// An exit code when the line is answered already (help, version, no command); else run() is next.
  std::optional<int> parse(int argc, const char* const* argv);
  int run() const;

  /// What may stand where the last of `words` (without the program's name) stands, which may be begun.
  struct Completions {
    std::vector<std::string> words;  ///< commands, or options where it begins with '-'
    std::string argument;            ///< the command's argument that may stand there, as in its help: "RUN"; or ""
  };
  Completions complete(const std::vector<std::string>& words) const;

 private:
  void take_global_options(CLI::App& app);
  std::vector<const CLI::App*> typed_commands() const;
  std::string explain(const CLI::ParseError& error) const;

  GlobalOptions globals_;
  CLI::App app_;
  std::map<const CLI::App*, Action> actions_;
};

/// Where `runs`, `sql` and `checkpoint` look when nothing else is said; the default of [log] database.
inline constexpr const char* default_database = "runs/wmtp.db";

/// `action`, which reads the run log: where a row is not as a run writes it (a damaged page, a file from elsewhere),
/// that is the file's fault, Error(storage).
CommandLine::Action reading_log(CommandLine::Action action);

void add_run(CommandLine& line);      // run FILE
void add_runs(CommandLine& line);     // runs list, show RUN, compare RUN RUN, watch RUN, delete RUN, snapshot FILE
void add_sql(CommandLine& line);      // sql "SELECT …"
void add_export(CommandLine& line);   // export RUN… --to csv, json, tensorboard, mlflow
void add_plugins(CommandLine& line);  // plugins list, plugins inspect NAME
void add_plugin_author(CommandLine& line);  // plugins new NAME, plugins check FILE: after add_plugins
void add_checkpoint(CommandLine& line);     // checkpoint list RUN, checkpoint verify PATH
void add_convert(CommandLine& line);        // checkpoint export RUN, checkpoint import DIR: after add_checkpoint
void add_merge(CommandLine& line);          // checkpoint merge ADAPTER: after add_checkpoint
void add_data(CommandLine& line);           // data prepare EXPERIMENT, data prepare FILE --from …, data inspect FILE
void add_plan(CommandLine& line);           // plan FILE
void add_completion(CommandLine& line);     // completion bash, zsh, fish
void add_doctor(CommandLine& line);         // doctor
void add_eval(CommandLine& line);           // eval --suite FILE --samples FILE
void add_generate(CommandLine& line);       // generate RUN PROMPT
void add_ui(CommandLine& line);             // ui
void add_report(CommandLine& line);         // report RUN… -o FILE.html

}  // namespace wmtp
