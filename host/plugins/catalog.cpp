#include "plugins/catalog.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <system_error>
#include <thread>

#include "base/environment.hpp"
#include "base/error.hpp"
#include "base/installation.hpp"
#include "base/normal_path.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "plugins/libtorch.hpp"
#include "plugins/probe.hpp"

namespace wmtp {
namespace {

constexpr size_t max_name_length = 32;

std::filesystem::path folder_of(const std::filesystem::path& root, PluginKind kind) { return root / folder_name(kind); }

/// NAME of every NAME.so in a folder, sorted; empty if the folder does not exist.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(folder, absent))
    if (entry.path().extension() == ".so") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

PluginDescription describe_file(PluginKind kind, const std::string& name, const std::filesystem::path& file) {
  PluginDescription description = probe_plugin(file);
  if (description.kind != kind || description.name != name) {
    throw Error(ExitStatus::plugin, file.string() + ": contains the " + to_string(description.kind) + " '" +
                                        description.name + "', but its path is that of the " + to_string(kind) + " '" +
                                        name + "'; rename or move the file");
  }
  return description;
}

}  // namespace

bool is_plugin_name(const std::string& name) {
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto allowed = [&](char c) { return lower(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.size() <= max_name_length && lower(name[0]) &&
         std::all_of(name.begin(), name.end(), allowed);
}

Catalog::Catalog(const std::vector<std::filesystem::path>& extra) {
  engine_environment();  // here, since its error is about no plugin and no line of an experiment
  for (const auto& folder : extra) {
    if (!std::filesystem::is_directory(folder)) {
      throw Error(ExitStatus::usage, "--plugin-dir " + folder.string() + ": no such folder; wanted a folder with " +
                                         "pipelines/NAME.so, adapters/NAME.so or auxiliary_losses/NAME.so");
    }
    folders_.push_back(absolute_path(folder));
    check_is_utf8(folders_.back().string(), "--plugin-dir");
  }
  for (const std::string& folder : split_search_path(environment_value("WMTP_PLUGIN_PATH")))
    folders_.push_back(absolute_path(folder));
  folders_.push_back(own_plugin_folder());
}

PluginDescription Catalog::describe(PluginKind kind, const std::string& name) const {
  if (!is_plugin_name(name)) {
    throw Error(ExitStatus::usage, printable(name) +
                                       " is not a valid plugin name: wanted at most 32 lower case letters, digits and "
                                       "'_', the first a letter; use --plugin-dir FOLDER for other folders");
  }
  std::vector<std::string> known, searched;
  for (const auto& root : folders_) {
    const std::filesystem::path folder = folder_of(root, kind);
    const std::filesystem::path file = folder / (name + ".so");
    std::error_code unreadable;
    if (std::filesystem::symlink_status(file, unreadable).type() != std::filesystem::file_type::not_found)
      return describe_file(kind, name, file);
    const auto names = names_in(folder);
    known.insert(known.end(), names.begin(), names.end());
    searched.push_back(folder.string());
  }
  for (const PluginDescription& built_in : probe_built_in()) {
    if (built_in.kind == kind && built_in.name == name) return built_in;
    if (built_in.kind == kind) known.push_back(built_in.name);
  }
  const std::string nearest = nearest_name(name, known);
  throw Error(ExitStatus::plugin, "no " + std::string(to_string(kind)) + " '" + name + "'" +
                                      (nearest.empty() ? "" : "; did you mean '" + nearest + "'?") + "\n  searched: " +
                                      join_names(searched) + "\n  `wmtp-host plugins list` lists all plugins");
}

std::vector<std::string> Catalog::names(PluginKind kind) const {
  std::vector<std::string> all;
  for (const auto& root : folders_) {
    const auto names = names_in(folder_of(root, kind));
    all.insert(all.end(), names.begin(), names.end());
  }
  for (const PluginDescription& built_in : probe_built_in())
    if (built_in.kind == kind) all.push_back(built_in.name);
  return all;
}

std::vector<Catalog::Listed> Catalog::list() const {
  std::vector<Listed> all;
  std::set<std::pair<PluginKind, std::string>> seen;
  for (const PluginKind kind : plugin_kinds) {
    for (const auto& root : folders_) {
      for (const std::string& name : names_in(folder_of(root, kind))) {
        Listed one;
        one.description.kind = kind;
        one.description.name = name;
        one.description.path = folder_of(root, kind) / (name + ".so");
        one.shadowed = !seen.emplace(kind, name).second;
        all.push_back(std::move(one));
      }
    }
  }

  std::atomic<size_t> next{0};
  const auto describe_some = [&] {
    for (size_t i = next++; i < all.size(); i = next++) {
      PluginDescription& description = all[i].description;
      try {
        if (!is_plugin_name(description.name))
          throw Error(ExitStatus::plugin, "not a valid plugin name, so it cannot be used");
        description = describe_file(description.kind, description.name, description.path);
      } catch (const std::exception& error) {
        all[i].problem = error.what();
      }
    }
  };
  {
    std::jthread second;
    try {
      second = std::jthread(describe_some);  // at most two children at a time, because each loads LibTorch
    } catch (const std::system_error&) {     // then one
    }
    describe_some();
  }

  for (const PluginDescription& built_in : probe_built_in()) {
    all.push_back({built_in, "", !seen.emplace(built_in.kind, built_in.name).second});
  }
  return all;
}

PluginSetting plugin_setting(const Catalog& catalog, PluginKind kind, const PluginChoice& choice) {
  return {catalog.describe(kind, choice.plugin), given_options(choice)};
}

PluginNeeds pipeline_needs(const Experiment& experiment, const Catalog& catalog) {
  const PluginSetting outer = plugin_setting(catalog, PluginKind::pipeline, experiment.pipeline);
  if (experiment.inner) {
    const PluginSetting inner = plugin_setting(catalog, PluginKind::pipeline, *experiment.inner);
    return check_plugin(outer, &inner).needs;
  }
  if (outer.description.needs && outer.options.empty()) return *outer.description.needs;
  return check_plugin(outer, nullptr).needs;
}

}  // namespace wmtp
