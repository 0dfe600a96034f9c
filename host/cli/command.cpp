#include "cli/command.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/shell_text.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "experiment/foreign_names.hpp"
#include "log/spool.hpp"

namespace wmtp {
namespace {

constexpr const char* program_help =
    "Weighted multi-token-prediction training: experiments in TOML files, methods as plugins, runs in SQLite.\n\n"
    "examples:\n"
    "  wmtp-host run experiments/rho1.toml\n"
    "  wmtp-host run experiments/rho1.toml --set pipeline.keep=0.5 --name half\n"
    "  wmtp-host runs list\n\n"
    "short forms: train (run), ls (runs list), rm (runs delete)\n";

const std::map<std::string, std::vector<const char*>> short_forms{
    {"train", {"run"}}, {"ls", {"runs", "list"}}, {"rm", {"runs", "delete"}}};

/// The command line with the command's full name; `help COMMAND` is `COMMAND --help`.
std::vector<const char*> expand_short_forms(int argc, const char* const* argv) {
  std::vector<const char*> words(argv, argv + argc);
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string word = words[i];
    if (word == "--db" || word == "--plugin-dir") ++i;  // and its value
    if (word.starts_with("-")) continue;
    if (word == "help") {
      words.erase(words.begin() + std::ptrdiff_t(i--));
      words.push_back("--help");
      continue;
    }
    const auto found = short_forms.find(word);
    if (found == short_forms.end()) break;
    words.erase(words.begin() + std::ptrdiff_t(i));
    words.insert(words.begin() + std::ptrdiff_t(i), found->second.begin(), found->second.end());
    break;
  }
  return words;
}

/// The command line as a shell reads it.
std::string shell_quoted_words(const std::vector<const char*>& words) {
  std::string line = "wmtp-host";
  for (size_t i = 1; i < words.size(); ++i) line += " " + shell_quoted(words[i]);
  return line;
}

constexpr size_t help_columns = 100;

/// Lines of at most `columns` characters, broken at spaces; a longer word has a line of its own.
std::string wrapped(const std::string& text, size_t columns) {
  std::istringstream words(text);
  std::string lines, line;
  for (std::string word; words >> word;) {
    if (!line.empty() && shown_length(line) + 1 + shown_length(word) > columns) {
      lines += line + '\n';
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return lines + line;
}

/// CLI11's layout, except that lists of commands show only the first line of each help, that ranges are short, and that
/// long descriptions are wrapped.
class FirstLines : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    return with_short_range(CLI::Formatter::make_option_opts(option));
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description(), help_columns - column_width_);
  }
  std::string make_subcommand(const CLI::App* app) const override {
    const std::string help = app->get_description();
    std::stringstream out;
    CLI::detail::format_help(out, app->get_display_name(true), wrapped(first_line(help), help_columns - column_width_),
                             column_width_);
    return out.str();
  }
};

std::string full_name(const CLI::App& app) {
  return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : "wmtp-host";
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) names.push_back(command->get_name());
  return names;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates, const CLI::App& app) {
  const std::string nearest = nearest_name(word, candidates);
  const std::string help = "see `" + full_name(app) + " --help`";
  return nearest.empty() ? help : "did you mean '" + nearest + "'? " + help;
}

/// What does here what a command of another program does.
const std::map<std::string, const char*> commands_elsewhere{
    {"chat", "generate MODEL --chat"},
    {"serve", "ui"},
    {"dashboard", "ui"},
    {"sweep", "run FILE`, whose [sweep] lists the values, or `wmtp-host study FILE"},
    {"launch", "run FILE --nproc N"},
    {"resume", "run FILE --resume"},
    {"finetune", "init DATA MODEL"},
    {"status", "runs list"},
    {"version", "--version"},
};

std::string unknown_command(const CLI::App& app, const std::string& word) {
  const std::string no_command = "there is no command `" + full_name(app) + " " + word + "`; ";
  std::string meant;
  for (const CLI::App* group : app.get_subcommands({}))  // `check` for `plugins check`
    for (const std::string& name : command_names(*group))
      if (name == word) meant += (meant.empty() ? "`" : " or `") + full_name(*group) + " " + word + "`";
  if (const auto found = commands_elsewhere.find(word); !app.get_parent() && found != commands_elsewhere.end())
    meant = std::string("`wmtp-host ") + found->second + "`";
  if (!meant.empty()) return no_command + "did you mean " + meant + "?";
  std::vector<std::string> names = command_names(app);
  if (!app.get_parent())
    for (const auto& [name, full] : short_forms) names.push_back(name);
  return no_command + suggestion(word, names, app);
}

void visit_tree(const CLI::App& app, const std::function<void(const std::string&, const CLI::App&)>& on_command) {
  on_command(full_name(app), app);
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) visit_tree(*command, on_command);
}

/// As of a variable of the shell that is not set.
void refuse_empty_paths(const CLI::App& command) {
  constexpr std::array paths{"FILE", "DIR", "FOLDER", "PATH", "DATA", "MODEL", "ADAPTER"};
  for (const CLI::Option* option : command.get_options()) {
    const std::string kind = option->get_positional() ? option->get_name(true) : option->get_type_name();
    const std::vector<std::string>& given = option->results();
    if (option->check_lname("db") || std::find(paths.begin(), paths.end(), kind) == paths.end()) continue;
    if (std::find(given.begin(), given.end(), "") != given.end())
      throw Error(ExitStatus::usage, "`" + full_name(command) +
                                         "`: " + (option->get_positional() ? kind : option->get_name()) +
                                         " is empty, wanted a path; see `" + full_name(command) + " --help`");
  }
}

}  // namespace

std::string with_short_range(std::string options) {
  for (const std::string type : {":INT in [", ":FLOAT in ["}) {
    const size_t at = options.find(type);
    if (at == std::string::npos) continue;
    options.replace(at, type.size(), " [");
    options.replace(options.find(" - ", at), 3, "-");
  }
  return options;
}

std::filesystem::path GlobalOptions::database_or(const std::string& otherwise) const {
  return chosen_database(database, otherwise);
}

void GlobalOptions::add_to(JobRequest& request) const {
  request.command = command;
  request.database = database;
  request.plugin_folders = plugin_folders;
  request.quiet = quiet;
  request.no_color = no_color;
}

CLI::Option* add_set(CLI::App& app, std::vector<std::string>& overrides) {
  return add_option(app, "--set KEY=VALUE", overrides, "override a key with a TOML value; may be repeated")
      ->allow_extra_args(false);
}

void add_nproc(CLI::App& app, int64_t& nproc) {
  add_option(app, "--nproc N", nproc, "processes, instead of [parallel] processes",
             CLI::Range(int64_t{1}, int64_t{4096}));
}

CommandLine::Action reading_log(CommandLine::Action action) {
  return [action = std::move(action)](const GlobalOptions& globals) {
    const auto refuse = [&](const std::exception& found) -> int {
      throw Error(ExitStatus::storage, "run log " + globals.database_or(default_database).string() + ": invalid row (" +
                                           found.what() +
                                           "); the file is damaged or was written by another program; `sqlite3 FILE "
                                           "\"PRAGMA integrity_check\"` checks it, --db selects another file");
    };
    load_spools(globals.database_or(default_database));
    try {
      return action(globals);
    } catch (const Json::exception& wrong_type) {
      return refuse(wrong_type);
    } catch (const std::out_of_range& no_such_row) {
      return refuse(no_such_row);
    } catch (const std::bad_optional_access& no_such_run) {
      return refuse(no_such_run);
    }
  };
}

CommandLine::CommandLine() : app_(program_help, "wmtp-host") {
  app_.formatter(std::make_shared<FirstLines>());
  app_.require_subcommand(0, 1);
  app_.set_version_flag("--version", "wmtp-host " WMTP_VERSION);
  take_global_options(app_);
}

void CommandLine::take_global_options(CLI::App& app) {
  const auto add_folders = [this](const CLI::results_t& folders) {
    globals_.plugin_folders.insert(globals_.plugin_folders.end(), folders.begin(), folders.end());
    return true;
  };
  constexpr const char* group = "Global options";
  app.get_help_ptr()->group(group);
  app.add_option("--plugin-dir", add_folders,
                 "folder with pipelines/, adapters/ and auxiliary_losses/, searched first; may be repeated")
      ->type_name("DIR")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  add_option(app, "--db FILE", globals_.database,
             "run log (default: WMTP_DB, else the experiment's, else runs/wmtp.db)")
      ->group(group);
  app.add_flag("-q,--quiet", globals_.quiet, "print errors and warnings only")->group(group);
  app.add_flag("--no-color", globals_.no_color, "no colors, as with NO_COLOR=1")->group(group);
}

void CommandLine::add_group(const std::string& name, const std::string& help) {
  CLI::App* group = app_.add_subcommand(name, help)->require_subcommand(0, 1)->group("Commands");
  take_global_options(*group);
}

CLI::App& CommandLine::add(const std::string& words, const std::string& help, Action action) {
  const auto space = words.find(' ');
  CLI::App* parent = space == std::string::npos ? &app_ : app_.get_subcommand(words.substr(0, space));
  CLI::App* command = parent->add_subcommand(words.substr(space + 1), help)->group("Commands");
  take_global_options(*command);
  actions_[command] = std::move(action);
  return *command;
}

CLI::App& CommandLine::add_hidden(const std::string& words, Action action) {
  CLI::App& command = add(words, "", std::move(action));
  command.group("");
  return command;
}

std::vector<const CLI::App*> CommandLine::typed_commands() const {
  std::vector<const CLI::App*> typed{&app_};
  while (!typed.back()->get_subcommands().empty()) typed.push_back(typed.back()->get_subcommands().back());
  return typed;
}

std::string CommandLine::explain(const CLI::ParseError& error) const {
  const auto typed = typed_commands();
  for (const CLI::App* app : typed) {
    const auto unexpected = app->remaining();
    if (unexpected.empty()) continue;
    const std::string& word = unexpected.front();
    if (word.starts_with("-")) {
      const std::string name = word.substr(0, word.find('='));
      const std::string key = key_meant_by(name.substr(name.find_first_not_of('-')));
      return "`" + full_name(*app) + "` has no option " + name + "; " +
             (key.empty() || !app->get_option_no_throw("--set") ? suggestion(name, option_names(*app), *app)
                                                                : "set the experiment's key: --set " + key + "=VALUE");
    }
    if (!app->get_subcommands({}).empty()) return unknown_command(*app, word);
    return "`" + full_name(*app) + "`: unexpected argument '" + word + "'; " + suggestion("", {}, *app);
  }
  return std::string(error.what()) + "; " + suggestion("", {}, *typed.back());
}

std::optional<int> CommandLine::parse(int argc, const char* const* argv) {
  try {
    const std::vector<const char*> words = expand_short_forms(argc, argv);
    globals_.command = shell_quoted_words(words);
    app_.parse(int(words.size()), words.data());
  } catch (const CLI::CallForHelp&) {
    for (const CLI::App* app : typed_commands())
      for (const std::string& word : app->remaining())
        if (!app->get_subcommands({}).empty() && !word.starts_with("-"))
          throw Error(ExitStatus::usage, unknown_command(*app, word));
    std::cout << app_.help();
    return int(ExitStatus::done);
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << '\n';
    return int(ExitStatus::done);
  } catch (const CLI::ParseError& error) {
    throw Error(ExitStatus::usage, explain(error));
  }
  refuse_empty_paths(*typed_commands().back());
  configure_log({globals_.quiet, !globals_.no_color});
  const CLI::Option* const json = typed_commands().back()->get_option_no_throw("--json");
  if (globals_.quiet || (json && json->count() > 0)) hide_progress();
  if (actions_.contains(typed_commands().back())) return std::nullopt;
  std::cerr << app_.help();
  return int(ExitStatus::usage);
}

CommandLine::Completions CommandLine::complete(const std::vector<std::string>& words) const {
  const std::string prefix = words.empty() ? "" : words.back();
  const CLI::App* app = &app_;
  for (size_t i = 0; i + 1 < words.size(); ++i)
    for (const CLI::App* next : app->get_subcommands({}))
      if (next->get_name() == words[i]) {
        app = next;
        break;
      }
  Completions found;
  const std::vector<std::string> all = prefix.starts_with("-") ? option_names(*app) : command_names(*app);
  for (const std::string& word : all)
    if (word.starts_with(prefix)) found.words.push_back(word);
  for (const CLI::Option* option : app->get_options())
    if (option->get_positional() && found.argument.empty()) found.argument = option->get_name(true);
  return found;
}

void CommandLine::each_command(const std::function<void(const std::string&, const CLI::App&)>& on_command) const {
  visit_tree(app_, on_command);
}

int CommandLine::run() const { return actions_.at(typed_commands().back())(globals_); }

}  // namespace wmtp
