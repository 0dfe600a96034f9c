// A temporary folder for experiment files, and plugins that exist only as descriptions.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "experiment/canonical.hpp"
#include "experiment/load/load.hpp"
#include "support/refusal.hpp"

namespace wmtp {

inline PluginDescription known_plugin(PluginKind kind, const std::string& name) {
  const bool is_adapter = kind == PluginKind::adapter;
  PluginDescription plugin;
  plugin.kind = kind;
  plugin.name = name;
  plugin.role = is_adapter ? PluginRole::adapter : PluginRole::weighting;
  plugin.needs.emplace().when = WeighingMoment::before;
  using Type = OptionSpec::Type;
  if (!is_adapter && name == "rho1") {
    plugin.needs->reads = {"policy.loss", "reference.loss"};
    plugin.options = {{"keep", Type::number, 0.6, 0.0, 1.0, {}, "part that is kept"},
                      {"mode", Type::text, std::string("signed"), {}, {}, {"signed", "absolute"}, "of the excess"},
                      {"per_rank", Type::flag, false, {}, {}, {}, "threshold of each rank alone"},
                      {"limit", Type::number, std::numeric_limits<double>::infinity(), {}, {}, {}, "of a weight"}};
    return plugin;
  }
  if (is_adapter && name == "lora") {
    plugin.options = {{"rank", Type::integer, int64_t{8}, 1.0, 1024.0, {}, "rank"},
                      {"targets", Type::texts, std::vector<std::string>{"wq"}, {}, {}, {"wq", "wv"}, "slots"}};
    return plugin;
  }
  if (!is_adapter && name == "shuffled") {
    plugin.role = PluginRole::wrapper;
    plugin.needs.reset();
    plugin.options = {{"seed", Type::integer, int64_t{0}, {}, {}, {}, "of the order"}};
    return plugin;
  }
  if (!is_adapter && name == "critic") {
    plugin.role = PluginRole::objective;
    plugin.needs = PluginNeeds{{"policy.value:value"}, {{"value", "mlp", "score"}}, true, false};
    plugin.options = {{"loss", Type::text, std::string("pairwise"), {}, {}, {"pairwise", "lambda_return"}, "which"}};
    return plugin;
  }
  if (!is_adapter && name == "formula") {
    plugin.needs.reset();
    plugin.options = {{"weight", Type::text, std::string(), {}, {}, {}, "over ce, ref and value"},
                      {"low", Type::number, 0.0, {}, {}, {}, "smallest"}};
    return plugin;
  }
  if (name == (is_adapter ? "full" : "baseline")) return plugin;
  if (name.find('/') != std::string::npos) throw Error(ExitStatus::usage, "\"" + name + "\" is no name of a plugin");
  throw Error(ExitStatus::plugin, "no " + std::string(to_string(kind)) + " \"" + name + "\"\nsearched: somewhere");
}

/// The given value of an option, or its default.
template <class T>
T option(const PluginSetting& plugin, const std::string& name) {
  if (const auto given = plugin.options.find(name); given != plugin.options.end()) return std::get<T>(given->second);
  for (const OptionSpec& stated : plugin.description.options)
    if (stated.name == name) return std::get<T>(stated.default_value);
  return {};
}

/// Answers of these plugins: `formula` reads the outputs named in its text, accepts scores if it contains "score" and
/// refuses "?"; `shuffled` has the needs of its inner plugin.
inline PluginCheckResult asked_plugin(const PluginSetting& plugin, const PluginSetting* inner) {
  if (inner) {
    PluginCheckResult answer = asked_plugin(*inner, nullptr);
    if (answer.mistake) answer.mistake->is_inner_option = true;
    return answer;
  }
  const std::string& name = plugin.description.name;
  if (name == "critic") {
    const bool pairs = option<std::string>(plugin, "loss") == "pairwise";
    return {{{"policy.value:value"}, {{"value", "mlp", pairs ? "score" : "value"}}, pairs, false}, {}};
  }
  if (name != "formula") return {*plugin.description.needs, {}};
  const std::string weight = option<std::string>(plugin, "weight");
  if (option<double>(plugin, "low") > 1) return {{}, OptionMistake{false, "low", "above 1", -1}};
  if (weight.empty()) return {{}, OptionMistake{false, "weight", "it must be given", -1}};
  if (weight == "broken") throw Error(ExitStatus::plugin, "formula.so: it broke");
  if (const size_t at = weight.find('?'); at != std::string::npos)
    return {{}, OptionMistake{false, "weight", "unknown name \"\x1b?\"", int64_t(at)}};
  PluginNeeds needs;
  if (weight.find("ce") != std::string::npos) needs.reads.push_back("policy.loss");
  if (weight.find("ref") != std::string::npos) needs.reads.push_back("reference.loss");
  if (weight.find("value") != std::string::npos) needs.reads.push_back("value.value");
  for (const std::string name : {"amateur", "expert"})
    for (const std::string signal : {"loss", "entropy"})
      if (weight.find(name + "_" + signal) != std::string::npos)
        needs.reads.push_back(reference_table(name) + "." + signal);
  needs.scores = weight.find("score") != std::string::npos;
  return {needs, {}};
}

class ExperimentFolder : public testing::Test {
 protected:
  ExperimentFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "experiment_test.XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ExperimentFolder() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  Experiment load(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    return load_experiment({write("a.toml", text), overrides, known_plugin, {}, asked_plugin});
  }
  /// The error for a text that must be refused, without the folder's name.
  std::string refused(const std::string& text, const std::vector<std::string>& overrides = {},
                      ExitStatus status = ExitStatus::usage) const {
    SCOPED_TRACE(text);
    std::string message = test::refusal(status, [&] { load(text, overrides); });
    const std::string prefix = folder_.string() + "/";
    for (size_t at; (at = message.find(prefix)) != std::string::npos;) message.erase(at, prefix.size());
    return message;
  }

  std::filesystem::path folder_;
};

inline void expect_in_order(const std::string& text, const std::vector<std::string>& parts) {
  size_t at = 0;
  for (const std::string& part : parts) {
    const size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << "not found (in order): " << part << "\nin:\n" << text;
    at = found + part.size();
  }
}

/// Replaces the first `from` by `to`.
inline std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

inline const std::string small =
    "name = \"small\"\n"
    "[pipeline]\nplugin = \"baseline\"\n"
    "[model]\ndim = 64\nlayers = 6\nheads = 4\nvocab_size = 100\n"
    "[data]\nkind = \"random\"\n"
    "[train]\nsteps = 10\nbatch_size = 2\nsequence_length = 32\n";

inline const std::string text_experiment =
    "name = \"words\"\n"
    "[pipeline]\nplugin = \"baseline\"\n"
    "[model]\ndim = 64\nlayers = 6\nheads = 4\n"
    "[data]\nkind = \"text\"\nfiles = [\"corpus/**.py\"]\n"
    "[data.tokenizer]\nkind = \"bpe\"\nfiles = [\"corpus/**.py\"]\nvocab_size = 512\n"
    "[train]\nsteps = 10\nbatch_size = 2\nsequence_length = 32\n";

}  // namespace wmtp
