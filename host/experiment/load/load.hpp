// Loads an experiment: TOML file and overrides -> Experiment, or a list of all errors.
//
// 1. The file's size (16 KiB), UTF-8 and nesting depth are checked before toml++ sees it (experiment/toml).
// 2. The files that it extends are merged under it, then each `--set a.b=value` is applied (document.cpp).
// 3. The schema (experiment) binds keys to the Experiment: unknown and missing keys, types, ranges, NaN.
// 4. Plugin options are checked by the schemas that the plugins declare, then by the plugins (plugin_options.cpp).
// 5. Keys of [model] that are not given are taken from the folder of its weights (weights_shape.cpp).
// 6. Rules across keys (rules.cpp, data_rules.cpp), some of which depend on what the pipeline needs (step 4).
// 7. The stages named by the experiment are loaded the same way and compared with it (stage_rules.cpp).
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.hpp"
#include "experiment/load/document.hpp"
#include "experiment/load/source_texts.hpp"
#include "experiment/plugin_description.hpp"

namespace wmtp {

/// Finds a plugin's description. Error(usage) for an invalid name, Error(plugin) for an absent or refused library.
using DescribePlugin = std::function<PluginDescription(PluginKind kind, const std::string& name)>;

/// Creates a plugin with its options (a wrapper with its inner plugin) and returns its needs. Error(plugin) if the
/// plugin fails. Not called if the description already contains the answer, or after errors in the options.
using CheckPlugin = std::function<PluginCheckResult(const PluginSetting& plugin, const PluginSetting* inner)>;

/// The shape that the folder of [model] weights states, with its number of heads; what it leaves open is 0. nullopt if
/// the weights are no such folder. Error(data) if it cannot be used.
using ReadWeightsShape = std::function<std::optional<ModelConfig>(const Experiment& experiment)>;

/// The validation files of an experiment of text or tokens that states neither `files` nor `share`: absolute paths.
using DefaultValidation = std::function<std::vector<std::string>(const Experiment& experiment)>;

/// An absolute pattern of files on which the experiments that name a stage validate.
struct HeldOutFiles {
  std::string pattern;
  bool has_records = false;  ///< otherwise text or token ids
};

struct LoadRequest {
  std::filesystem::path file;
  std::vector<std::string> overrides;  ///< "a.b=value"
  DescribePlugin describe_plugin;
  std::vector<HeldOutFiles> held_out;  ///< stages: by their parents
  CheckPlugin check_plugin = {};
  bool hold_out_problems = false;  ///< stages: a parent holds out 1 problem of records in 20
  double hold_out_share = 0;       ///< stages: last share of each text file held out by a parent
  SourceTexts* texts = nullptr;    ///< source of files; nullptr: the file system
  std::string name_suffix = {};    ///< appended to the name, for members of a sweep
  ReadWeightsShape read_weights_shape = {};
  DefaultValidation default_validation = {};  ///< without it, stages train on such files
  const PastExperiment* past = nullptr;       ///< not null: the file's weighting, for that experiment (read_document)
};

/// Error(usage) that lists all errors, each as
///   file:line:column: message
///       the line
///       ^ caret
///     hint
/// Also Error(usage) for a missing or unreadable file; Error(plugin) if all errors come from plugins.
Experiment load_experiment(const LoadRequest& request);

}  // namespace wmtp
