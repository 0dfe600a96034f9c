// Commands: registers names, options and help, and dispatches the command line.
//
// Every command-line mistake is Error(usage) with the nearest known name. Global options are accepted before and after
// the command.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "job/job_request.hpp"

namespace wmtp {

/// Options common to all commands.
struct GlobalOptions {
  std::vector<std::filesystem::path> plugin_folders;
  std::string command;   ///< the whole command line, quoted for a shell
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

  /// A group of commands: "runs". Lists show the first line of `help`, --help shows all of it.
  void add_group(const std::string& name, const std::string& help);
  /// `words` is "sql" or "runs list". Add the command's own options to the result; `action` returns the exit code.
  CLI::App& add(const std::string& words, const std::string& help, Action action);
  /// For a command that has its own options, which the result's second part refers to.
  template <class Taken, class Options = std::remove_cvref_t<Taken>>
  std::pair<CLI::App&, Options&> add(const std::string& words, const std::string& help,
                                     int (*run)(Taken, const GlobalOptions&)) {
    const auto options = std::make_shared<Options>();
    return {add(words, help, [=](const GlobalOptions& globals) { return run(*options, globals); }), *options};
  }
  /// Hidden from every help.
  CLI::App& add_hidden(const std::string& words, Action action);

  /// Expands short forms (train, ls, rm). Returns the exit code if parsing alone answers the command line (help,
  /// version, no command); otherwise call run().
  std::optional<int> parse(int argc, const char* const* argv);
  int run() const;

  /// Completions of the last of `words`, which may be incomplete. `words` excludes the program's name.
  struct Completions {
    std::vector<std::string> words;  ///< commands, or options if it begins with '-'
    std::string argument;            ///< the command's positional argument, as in its help: "RUN"; or ""
  };
  Completions complete(const std::vector<std::string>& words) const;

  /// Visits the program and every command that its help lists: "wmtp-host", "wmtp-host run", "wmtp-host runs list".
  void each_command(const std::function<void(const std::string& name, const CLI::App& command)>& on_command) const;

 private:
  void take_global_options(CLI::App& app);
  std::vector<const CLI::App*> typed_commands() const;
  std::string explain(const CLI::ParseError& error) const;

  GlobalOptions globals_;
  CLI::App app_;
  std::map<const CLI::App*, Action> actions_;
};

/// The run log of `runs`, `sql` and `checkpoint` by default; also the default of [log] database.
inline constexpr const char* default_database = "runs/wmtp.db";

/// Wraps an action that reads the run log: a row that no run can have written (damaged page, foreign program) becomes
/// Error(storage).
CommandLine::Action reading_log(CommandLine::Action action);

/// What follows an option's name in help, with a short range: "N:INT in [1 - 4096]" becomes "N [1-4096]".
std::string with_short_range(std::string options);
/// Help of RUN arguments.
inline constexpr const char* model_argument =
    "run id or name, RUN@STEP, RUN@best, or folder of a run, checkpoint, model or Hugging Face model";
inline constexpr const char* run_argument = "run id, or name (its newest run)";
inline constexpr const char* runs_argument = "run ids, or names (the newest run of each)";

/// Rules of add_option, besides CLI's validators.
inline constexpr auto required = [](CLI::Option* option) { option->required(); };
inline constexpr auto shows_default = [](CLI::Option* option) { option->capture_default_str(); };
inline constexpr auto comma_separated = [](CLI::Option* option) { option->delimiter(','); };
inline constexpr auto repeatable = [](CLI::Option* option) {
  option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
};

/// `usage` is as in help: "RUN", "-o,--output FILE"; without a second word, help shows the type of an option's `value`.
template <class T, class... Rules>
CLI::Option* add_option(CLI::App& app, const std::string& usage, T& value, const std::string& help,
                        const Rules&... rules) {
  const auto space = usage.find(' ');
  CLI::Option* option = app.add_option(usage.substr(0, space), value, help);
  if (space != std::string::npos) option->type_name(usage.substr(space + 1));
  [[maybe_unused]] const auto apply = [&](const auto& rule) {
    if constexpr (std::is_base_of_v<CLI::Validator, std::decay_t<decltype(rule)>>)
      option->check(rule);
    else
      rule(option);
  };
  (apply(rules), ...);
  if (option->get_positional() && option->get_type_name() == "TEXT") option->type_name("");
  return option;
}

/// --set KEY=VALUE, which may be repeated.
CLI::Option* add_set(CLI::App& app, std::vector<std::string>& overrides);
/// --nproc N; 0 if not given.
void add_nproc(CLI::App& app, int64_t& nproc);

/// Changes all labels of a run, as the page sends them: {"run": 3, "name": …, "tags": "paper best", "note": …,
/// "archived": false}. Error(usage) if it is anything else, or a label is invalid; Error(storage).
void change_labels(const std::filesystem::path& database, const std::string& change);

void add_init(CommandLine& line);         // init DATA
void add_experiments(CommandLine& line);  // experiments
void add_run(CommandLine& line);          // run FILE
void add_runs(CommandLine& line);         // runs list, show RUN, compare RUN RUN, watch RUN, delete RUN, snapshot FILE
void add_labels(CommandLine& line);       // runs note, tag, archive, rename: after add_runs
void add_sql(CommandLine& line);          // sql "SELECT …"
void add_export(CommandLine& line);       // export RUN… --to csv, wide, json, tensorboard, mlflow, wandb, trackio
void add_plugins(CommandLine& line);      // plugins list, plugins inspect NAME
void add_plugin_author(CommandLine& line);  // plugins new NAME, plugins check FILE: after add_plugins
void add_checkpoint(CommandLine& line);     // checkpoint list RUN, checkpoint verify PATH
void add_convert(CommandLine& line);        // checkpoint export RUN, checkpoint import DIR: after add_checkpoint
void add_merge(CommandLine& line);          // checkpoint merge ADAPTER: after add_checkpoint
void add_data(CommandLine& line);           // data prepare EXPERIMENT, data prepare FILE --from …, data inspect FILE
void add_plan(CommandLine& line);           // plan FILE
void add_study(CommandLine& line);          // study FILE
void add_completion(CommandLine& line);     // completion bash, zsh, fish
void add_manual(CommandLine& line);         // manual pages, for the build
void add_doctor(CommandLine& line);         // doctor
void add_eval(CommandLine& line);           // eval --suite FILE --samples FILE
void add_weigh(CommandLine& line);          // weigh RUN
void add_generate(CommandLine& line);       // generate RUN PROMPT
void add_ui(CommandLine& line);             // ui
void add_report(CommandLine& line);         // report RUN… -o FILE.html

}  // namespace wmtp
