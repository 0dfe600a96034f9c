// `plugins new NAME` and `plugins check FILE`: for those who write a plugin.
#include <algorithm>
#include <iostream>
#include <memory>

#include "base/counted.hpp"
#include "base/error.hpp"
#include "cli/command.hpp"
#include "core/experiment/experiment.hpp"
#include "core/plugins/catalog.hpp"
#include "core/plugins/probe.hpp"
#include "core/plugins/scaffold.hpp"
#include "core/plugins/trials.hpp"
#include "core/report/table.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string name, kind, folder, file, experiment;
  bool json = false;
};

/// An experiment that names the plugin would get whichever the search path has first.
void refuse_taken_name(const std::string& name, const GlobalOptions& globals) {
  const Catalog catalog(globals.plugin_folders);
  for (const char* kind : {"pipeline", "adapter"}) {
    const std::vector<std::string> taken = catalog.names(kind);
    if (std::find(taken.begin(), taken.end(), name) != taken.end())
      throw Error(ExitStatus::usage, "there is already " + std::string(kind[0] == 'a' ? "an " : "a ") + kind + " '" +
                                         name + "'; choose another name (`wmtp-host plugins list` shows those in use)");
  }
}

int make_new(const Options& options, const GlobalOptions& globals) {
  refuse_taken_name(options.name, globals);
  const fs::path folder = options.folder.empty() ? fs::path(options.name) : fs::path(options.folder);
  for (const auto& file : make_plugin_folder(options.kind, options.name, folder)) std::cout << file.string() << '\n';
  if (!globals.quiet)
    std::cerr << "next: cd " << folder.string()
              << " && cmake -S . -B build && cmake --build build && ctest --test-dir build\n";
  return 0;
}

/// Those of the experiment's table for this plugin, or none.
OptionValues options_for(const PluginDescription& plugin, const Options& options, const GlobalOptions& globals) {
  if (options.experiment.empty()) return {};
  std::vector<fs::path> folders = globals.plugin_folders;
  folders.insert(folders.begin(), plugin.path.parent_path().parent_path());
  const Catalog catalog(folders);
  const Experiment experiment = load_experiment(load_request(catalog, options.experiment, {}));
  for (const PluginChoice* choice :
       {&experiment.pipeline, experiment.inner ? &*experiment.inner : nullptr, &experiment.adapter})
    if (choice && choice->plugin == plugin.name) return given_options(*choice);
  throw Error(ExitStatus::usage, options.experiment + ": it names no plugin '" + plugin.name + "'");
}

int check(const Options& options, const GlobalOptions& globals) {
  const PluginDescription plugin = probe_plugin(options.file);
  const PluginSetting setting{plugin, options_for(plugin, options, globals)};
  Table table{{"check", "result", "found", "promise"}, {}, false};
  table.rows.push_back({"entry", "passed", plugin.kind + " " + plugin.name + " " + plugin.version + ", " + plugin.role,
                        "the file exports an entry of this host's tool chain"});
  table.rows.push_back({"schema", "passed", counted(int64_t(plugin.options.size()), "option"),
                        "each option has a help, and a default within its range"});
  bool all = true;
  for (const Trial& trial : trials_of(plugin.role)) {
    const TrialResult result = run_trial(trial, setting);
    all &= result.passed;
    table.rows.push_back({trial.name, result.passed ? "passed" : "FAILED", result.message, trial.promise});
  }
  print_table(std::cout, table, options.json ? TableFormat::json : TableFormat::text);
  return int(all ? ExitStatus::done : ExitStatus::plugin);
}

}  // namespace

void add_plugin_author(CommandLine& line) {
  const auto options = std::make_shared<Options>();
  auto& fresh = line.add("plugins new",
                         "make the folder of a new plugin, which builds and passes its own test as it is\n\n"
                         "examples:\n  wmtp-host plugins new soft_focal --kind pipeline\n"
                         "  wmtp-host plugins new gates --kind adapter -o plugins/gates\n",
                         [options](const GlobalOptions& globals) { return make_new(*options, globals); });
  fresh.add_option("NAME", options->name, "the plugin's name: lower case letters, digits and '_'")->required();
  fresh.add_option("--kind", options->kind, "pipeline or adapter")
      ->type_name("KIND")
      ->check(CLI::IsMember({"pipeline", "adapter"}))
      ->required();
  fresh.add_option("-o,--output", options->folder, "the folder; NAME when not given")->type_name("FOLDER");
  auto& held = line.add("plugins check",
                        "hold a plugin to what the sdk promises of it: each check in a small training of its own\n\n"
                        "examples:\n  wmtp-host plugins check build/lib/wmtp/plugins/pipelines/soft_focal.so\n"
                        "  wmtp-host plugins check formula.so --experiment mine.toml --json\n",
                        [options](const GlobalOptions& globals) { return check(*options, globals); });
  held.add_option("FILE", options->file, "the plugin's library")->required();
  held.add_option("--experiment", options->experiment, "take the plugin's options from this file; else its defaults")
      ->type_name("FILE");
  held.add_flag("--json", options->json, "as JSON");
}

}  // namespace wmtp
