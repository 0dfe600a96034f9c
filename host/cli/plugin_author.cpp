// `plugins new NAME` and `plugins check FILE`: tools for plugin authors.
#include <algorithm>
#include <iostream>

#include "base/error.hpp"
#include "base/shell_text.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "experiment/experiment.hpp"
#include "job/job_request.hpp"
#include "plugins/catalog.hpp"
#include "plugins/probe.hpp"
#include "plugins/scaffold.hpp"
#include "plugins/trials.hpp"
#include "report/table.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string name, kind, folder, file, experiment, device = "cpu";
  bool json = false;
};

/// If two plugins have the same name, experiments use the first in the search path.
void refuse_taken_name(const std::string& name, const GlobalOptions& globals) {
  const Catalog catalog(globals.plugin_folders);
  for (const PluginKind kind : plugin_kinds) {
    const std::vector<std::string> taken = catalog.names(kind);
    if (std::find(taken.begin(), taken.end(), name) != taken.end())
      throw Error(ExitStatus::usage, "there is already " + one_of_kind(kind) + " '" + name +
                                         "'; choose another name (`wmtp-host plugins list` shows those in use)");
  }
}

int make_new(const Options& options, const GlobalOptions& globals) {
  refuse_taken_name(options.name, globals);
  const fs::path folder = options.folder.empty() ? fs::path(options.name) : fs::path(options.folder);
  const PluginKind kind = from_name<PluginKind>(options.kind).value();
  for (const auto& file : make_plugin_folder(kind, options.name, folder)) std::cout << file.string() << '\n';
  if (!globals.quiet)
    std::cerr << "next: cd " << shell_path(folder.string())
              << " && cmake -S . -B build && cmake --build build && ctest --test-dir build\n";
  return 0;
}

/// The options for this plugin in the experiment's table; none without an experiment.
OptionValues options_for(const PluginDescription& plugin, const Options& options, const GlobalOptions& globals) {
  if (options.experiment.empty()) return {};
  std::vector<fs::path> folders = globals.plugin_folders;
  folders.insert(folders.begin(), plugin.path.parent_path().parent_path());
  const Catalog catalog(folders);
  const Experiment experiment = load_experiment(load_request(catalog, options.experiment, {}));
  for (const PluginChoice* choice :
       {&experiment.pipeline, experiment.inner ? &*experiment.inner : nullptr, &experiment.adapter,
        experiment.auxiliary_loss ? &*experiment.auxiliary_loss : nullptr})
    if (choice && choice->plugin == plugin.name) return given_options(*choice);
  throw Error(ExitStatus::usage, options.experiment + " uses no plugin '" + plugin.name + "'");
}

int check(const Options& options, const GlobalOptions& globals) {
  const PluginDescription plugin = probe_plugin(options.file);
  const PluginSetting setting{plugin, options_for(plugin, options, globals)};
  Table table{{"check", "result", "found", "promise"}, {}, false};
  table.rows.push_back(
      {"entry", "passed",
       to_string(plugin.kind) + (" " + plugin.name) + " " + plugin.version + ", " + to_string(plugin.role),
       "the file exports an entry built with this host's tool chain"});
  table.rows.push_back({"schema", "passed", counted(int64_t(plugin.options.size()), "option"),
                        "each option has a help text and a default within its range"});
  std::vector<std::string> mistakes;  // a trial often fails for the reason of an earlier one
  for (const TrialResult& result : run_trials(setting, options.device)) {
    std::string found = result.message;
    if (!result.passed) {
      const auto known = std::find(mistakes.begin(), mistakes.end(), result.message);
      if (!options.json) found = "mistake " + std::to_string(known - mistakes.begin() + 1);
      if (known == mistakes.end()) mistakes.push_back(result.message);
    }
    table.rows.push_back({result.trial.name, result.passed ? "passed" : "FAILED", found, result.trial.promise});
  }
  print_table(std::cout, table, options.json ? TableFormat::json : TableFormat::text);
  for (size_t i = 0; !options.json && i < mistakes.size(); ++i)
    std::cout << "mistake " << i + 1 << ": " << mistakes[i] << '\n';
  return int(mistakes.empty() ? ExitStatus::done : ExitStatus::plugin);
}

}  // namespace

void add_plugin_author(CommandLine& line) {
  auto [create, create_options] = line.add("plugins new",
                                           "create the folder of a new plugin, which builds and passes its own test\n\n"
                                           "examples:\n"
                                           "  wmtp-host plugins new soft_focal --kind pipeline\n"
                                           "  wmtp-host plugins new gates --kind adapter -o plugins/gates\n",
                                           make_new);
  add_option(create, "NAME", create_options.name, "lower case letters, digits and '_'", required);
  add_option(create, "--kind KIND", create_options.kind, "kind of plugin", CLI::IsMember(all_names<PluginKind>()),
             required);
  add_option(create, "-o,--output FOLDER", create_options.folder, "folder to create (default: NAME)");
  auto [trial, trial_options] =
      line.add("plugins check",
               "check that a plugin meets the sdk's requirements, each in a small training run\n\n"
               "examples:\n"
               "  wmtp-host plugins check build/lib/wmtp/plugins/pipelines/soft_focal.so\n"
               "  wmtp-host plugins check formula.so --experiment mine.toml --device cuda\n",
               check);
  add_option(trial, "FILE", trial_options.file, "shared library of the plugin", required);
  add_option(trial, "--experiment FILE", trial_options.experiment,
             "experiment with the plugin's options (default: its defaults)");
  add_option(trial, "--device DEVICE", trial_options.device, "where the trials run; cuda: the first CUDA device",
             CLI::IsMember({"cpu", "cuda"}), shows_default);
  trial.add_flag("--json", trial_options.json, "print JSON");
}

}  // namespace wmtp
