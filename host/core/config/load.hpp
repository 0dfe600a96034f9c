// TOML file + overrides -> Experiment, or every mistake at once.
//
// 1. the file's size (16 KiB), UTF-8 and the depth of its dotted keys are checked before toml++ sees it
// 2. each `--set a.b=value` is parsed as TOML and laid over the file's tables
// 3. the schema (schema.cpp) binds keys to the Experiment (bind.cpp): unknown, missing, types, ranges, NaN
// 4. the chosen plugins' options are checked by the plugins' own schemas, then by the plugins with these options
// 5. rules that span several keys (rules.cpp); those over what a pipeline needs use its answer of step 4
// 6. the stages it names are loaded the same way
// Knows no LibTorch.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/config/source_texts.hpp"
#include "core/experiment/experiment.hpp"
#include "core/experiment/plugin_description.hpp"

namespace wmtp {

/// Finds a plugin's description. Throws Error (usage for an invalid name, plugin for an absent or bad library).
using DescribePlugin = std::function<PluginDescription(const std::string& kind, const std::string& name)>;

/// Makes a plugin with its options, a wrapper over its inner one, and asks what it needs. Throws Error(plugin) when the
/// plugin fails in that. Not asked where the description says it already, or where the options have mistakes.
using CheckPlugin = std::function<PluginAnswer(const PluginSetting& plugin, const PluginSetting* inner)>;

struct LoadRequest {
  std::filesystem::path file;
  std::vector<std::string> overrides;  ///< "a.b=value"
  DescribePlugin describe_plugin;
  std::vector<std::string> held_out;  ///< absolute patterns that a stage leaves out (its parent's validation files)
  CheckPlugin check_plugin = {};
  bool hold_out_problems = false;  ///< whether a stage leaves out one problem of records in twenty, as its parent does
  double hold_out_share = 0;       ///< last share of each text file that a stage leaves out, as its parent does
  SourceTexts* texts = nullptr;    ///< where files are read; nullptr: from the file system
  std::string name_suffix = {};    ///< what a member of a sweep adds to the name that the file or an override gives
};

/// Throws Error(usage) whose text lists all mistakes, each as
///   file:line:column: message
///       the line
///       ^ caret
///     hint
/// A missing or unreadable file is Error(usage) too; a plugin's own failure keeps its status (3).
Experiment load_experiment(const LoadRequest& request);

}  // namespace wmtp
