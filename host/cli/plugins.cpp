// `plugins list` and `plugins inspect NAME`: the plugins on the search path, described by their schemas.
#include <algorithm>
#include <iostream>
#include <memory>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "plugins/catalog.hpp"
#include "report/table.hpp"

namespace wmtp {
namespace {

struct Options {
  std::string name, kind;
  bool json = false;
};

std::string range_of(const OptionSpec& option) {
  if (!option.choices.empty()) return join_names(option.choices);
  const auto number = [](double value) { return OrderedJson(value).dump(); };
  if (option.min && option.max) return number(*option.min) + " to " + number(*option.max);
  if (option.min) return "at least " + number(*option.min);
  return option.max ? "at most " + number(*option.max) : "";
}

/// "return (linear)", "rank (mlp, score)"
std::vector<std::string> head_texts(const PluginNeeds& needs) {
  std::vector<std::string> texts;
  for (const ValueHeadNeed& head : needs.heads)
    texts.push_back(head.name + " (" + head.kind + (head.meaning == "score" ? ", score)" : ")"));
  return texts;
}

/// Null if its needs depend on the options of an experiment.
OrderedJson needs_to_json(const PluginDescription& plugin) {
  if (!plugin.needs) return nullptr;
  const PluginNeeds& needs = *plugin.needs;
  Json json{{"reads", needs.reads}, {"heads", head_texts(needs)}, {"pairs", needs.pairs}, {"prompts", needs.prompts}};
  if (needs.when) json["when"] = to_string(*needs.when);
  return json;
}

OrderedJson to_json(const PluginDescription& plugin) {
  OrderedJson options = OrderedJson::array();
  for (const auto& option : plugin.options) {
    OrderedJson entry{{"name", option.name}, {"type", to_string(option.type)}, {"default", option.default_value}};
    if (option.min) entry["min"] = *option.min;
    if (option.max) entry["max"] = *option.max;
    if (!option.choices.empty()) entry["choices"] = option.choices;
    entry["help"] = option.help;
    options.push_back(entry);
  }
  return {{"name", plugin.name},       {"kind", to_string(plugin.kind)}, {"role", to_string(plugin.role)},
          {"version", plugin.version}, {"summary", plugin.summary},      {"needs", needs_to_json(plugin)},
          {"options", options},        {"path", plugin.path.string()},   {"sha256", plugin.sha256}};
}

/// The plugin's needs with default options, one per line.
std::string needs_text(const PluginDescription& plugin) {
  if (plugin.role == PluginRole::wrapper) return "needs   what the weighting of [pipeline.inner] needs\n";
  if (!plugin.needs) return "needs   depend on an experiment's options: the defaults are invalid\n";
  const PluginNeeds& needs = *plugin.needs;
  std::string text;
  if (!needs.reads.empty()) text += "reads   " + join_names(needs.reads) + "\n";
  if (!needs.heads.empty()) text += "heads   " + join_names(head_texts(needs)) + "\n";
  if (needs.pairs) text += "pairs   a right and a wrong answer: data of kind \"records\"\n";
  if (needs.prompts) text += "prompts are targets too\n";
  return text;
}

void print_text(const PluginDescription& plugin) {
  std::cout << plugin.name << ' ' << plugin.version << ", " << to_string(plugin.kind)
            << (plugin.kind == PluginKind::pipeline ? std::string(" (") + to_string(plugin.role) + ")" : "") << "\n"
            << plugin.summary << "\n\npath    " << (plugin.path.empty() ? "built in" : plugin.path.string()) << "\n"
            << (plugin.sha256.empty() ? "" : "sha256  " + plugin.sha256 + "\n") << needs_text(plugin) << '\n';
  if (plugin.options.empty()) {
    std::cout << "no options\n";
    return;
  }
  Table table{{"option", "type", "default", "range", "help"}, {}, false};
  for (const auto& option : plugin.options) {
    table.rows.push_back(
        {option.name, to_string(option.type), OrderedJson(option.default_value).dump(), range_of(option), option.help});
  }
  print_table(std::cout, table, TableFormat::text);
}

/// The kind of the plugin with this name. If there is none, the error gives the nearest name and the searched folders.
PluginKind kind_of(const Catalog& catalog, const std::string& name) {
  std::vector<PluginKind> kinds;
  std::vector<std::string> names;
  for (const PluginKind kind : plugin_kinds) {
    const auto of_kind = catalog.names(kind);
    if (std::find(of_kind.begin(), of_kind.end(), name) != of_kind.end()) kinds.push_back(kind);
    names.insert(names.end(), of_kind.begin(), of_kind.end());
  }
  if (kinds.size() == 1) return kinds.front();
  if (kinds.size() > 1)
    throw Error(ExitStatus::usage, "'" + name + "' is both " + one_of_kind(kinds[0]) + " and " + one_of_kind(kinds[1]) +
                                       "; choose one with --kind");
  std::string places;
  for (const auto& folder : catalog.folders()) places += "\n  " + folder.string();
  const std::string nearest = nearest_name(name, names);
  throw Error(ExitStatus::plugin, "no plugin '" + name + "'" +
                                      (nearest.empty() ? "" : "; did you mean '" + nearest + "'?") +
                                      "\nsearched:" + places + "\nsee `wmtp-host plugins list`");
}

int list(const Options& options, const GlobalOptions& globals) {
  Table table{{"name", "kind", "role", "version", "summary", "path", "problem"}, {}, false};
  const auto wanted = from_name<PluginKind>(options.kind);
  for (const auto& [plugin, problem, shadowed] : Catalog(globals.plugin_folders).list()) {
    if (wanted && plugin.kind != *wanted) continue;
    const std::string note = !problem.empty() ? problem : shadowed ? "shadowed by an earlier folder" : "";
    const char* role = problem.empty() ? to_string(plugin.role) : "";  // a refused plugin has no known role
    table.rows.push_back(
        {plugin.name, to_string(plugin.kind), role, plugin.version, plugin.summary, plugin.path.string(), note});
  }
  print_table(std::cout, table, options.json ? TableFormat::json : TableFormat::text);
  return 0;
}

int inspect(const Options& options, const GlobalOptions& globals) {
  const Catalog catalog(globals.plugin_folders);
  const bool valid = is_plugin_name(options.name);
  const auto given = from_name<PluginKind>(options.kind);
  const PluginKind kind = given ? *given : valid ? kind_of(catalog, options.name) : PluginKind::pipeline;
  const auto plugin = catalog.describe(kind, options.name);
  if (options.json) {
    std::cout << to_json(plugin).dump(2) << '\n';
  } else {
    print_text(plugin);
  }
  return 0;
}

}  // namespace

void add_plugins(CommandLine& line) {
  const auto options = std::make_shared<Options>();
  line.add_group("plugins", "list, inspect, check and create plugins");
  auto& all = line.add("plugins list",
                       "list all plugins on the search path, and why any are refused\n\n"
                       "example:\n"
                       "  wmtp-host plugins list --kind pipeline --json\n",
                       [options](const GlobalOptions& globals) { return list(*options, globals); });
  auto& one = line.add("plugins inspect",
                       "show a plugin's needs and options: type, default, range, help\n\n"
                       "example:\n"
                       "  wmtp-host plugins inspect rho1\n",
                       [options](const GlobalOptions& globals) { return inspect(*options, globals); });
  add_option(one, "NAME", options->name, "name of the plugin", required);
  for (CLI::App* app : {&all, &one}) {
    add_option(*app, "--kind KIND", options->kind, "kind of plugin", CLI::IsMember(all_names<PluginKind>()));
    app->add_flag("--json", options->json, "print JSON");
  }
}

}  // namespace wmtp
