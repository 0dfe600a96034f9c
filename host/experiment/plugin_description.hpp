// A plugin's description as plain data: this process does not load the plugin; a child process reads the description
// once and caches it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.hpp"

namespace wmtp {

/// One option of a plugin's own schema.
struct OptionSpec {
  enum class Type { number, integer, flag, text, texts, scheduled };
  std::string name;
  Type type = Type::text;
  OptionValue default_value;
  std::optional<double> min, max;    ///< numbers, integers and scheduled numbers; inclusive
  std::vector<std::string> choices;  ///< text and texts; empty: any
  std::string help;
};

template <>
inline constexpr auto names_of<OptionSpec::Type> =
    std::array{"number", "integer", "flag", "text", "texts", "scheduled"};

/// A value head that a pipeline trains; the values are those of the sdk's ValueHead.
struct ValueHeadNeed {
  std::string name, kind, meaning;
  bool operator==(const ValueHeadNeed&) const = default;
};

/// When a weighting is called: the sdk's When, in its order.
enum class WeighingMoment { token, before, head, all };
template <>
inline constexpr auto names_of<WeighingMoment> = std::array{"token", "before", "head", "all"};

/// What a pipeline needs from the host with its options, so that a missing [reference] is reported before training.
/// Adapters have no needs.
struct PluginNeeds {
  std::vector<std::string> reads;  ///< "reference.loss", "references.NAME.loss"
  std::vector<ValueHeadNeed> heads;
  bool pairs = false;                       ///< a correct and an incorrect answer in consecutive rows
  bool prompts = false;                     ///< prompt tokens are also targets
  std::optional<WeighingMoment> when = {};  ///< weightings only
  bool scores = false;                      ///< accepts a value model whose head learned scores
  bool signed_weights = false;              ///< its weights may be negative
  int64_t top_k = 0;                        ///< number of tokens whose probabilities it reads as one sum; 0: none
  bool operator==(const PluginNeeds&) const = default;
};

/// What an auxiliary loss reads of the reference.
inline const std::string reference_logits = "reference.logits";
/// What it reads of the records: whether an answer is right.
inline const std::string record_correct = "records.is_correct";
/// What a weighting reads of earlier steps: each token's loss when one last read it.
inline const std::string previous_loss = "policy.previous_loss";
/// "reference.loss" for "reference"; "" when the pipeline reads nothing of that model.
std::string first_read(const PluginNeeds& needs, const std::string& model);

/// The folder of the plugin and the table of the experiment that names it.
enum class PluginKind { pipeline, adapter, auxiliary_loss };
template <>
inline constexpr auto names_of<PluginKind> = std::array{"pipeline", "adapter", "auxiliary_loss"};
inline constexpr std::array plugin_kinds{PluginKind::pipeline, PluginKind::adapter, PluginKind::auxiliary_loss};
/// In a plugin folder.
inline std::string folder_name(PluginKind kind) {
  return to_string(kind) + std::string(kind == PluginKind::auxiliary_loss ? "es" : "s");
}
/// "an adapter"
inline std::string one_of_kind(PluginKind kind) {
  return (kind == PluginKind::pipeline ? "a " : "an ") + std::string(to_string(kind));
}

/// The class of the sdk that the plugin derives from; a weighting, wrapper or objective is a pipeline.
enum class PluginRole { weighting, wrapper, objective, adapter, auxiliary_loss };
template <>
inline constexpr auto names_of<PluginRole> =
    std::array{"weighting", "wrapper", "objective", "adapter", "auxiliary_loss"};
inline PluginKind kind_of(PluginRole role) {
  using enum PluginRole;
  return role == adapter          ? PluginKind::adapter
         : role == auxiliary_loss ? PluginKind::auxiliary_loss
                                  : PluginKind::pipeline;
}

struct PluginDescription {
  PluginKind kind = PluginKind::pipeline;
  PluginRole role = PluginRole::weighting;
  std::string name, version, summary;
  std::vector<OptionSpec> options;
  /// With the default options. nullopt for a wrapper, which has the needs of its inner plugin, and for a plugin that
  /// refuses its defaults (an option is required).
  std::optional<PluginNeeds> needs;
  std::filesystem::path path;  ///< empty for a built-in plugin
  std::string sha256;          ///< hash of the file
};

struct PluginSetting {
  PluginDescription description;
  OptionValues options;  ///< set in the experiment; the plugin has defaults for the others
};

/// An option value that is in range but refused by the plugin.
struct OptionMistake {
  bool is_inner_option = false;  ///< an option of the inner plugin
  std::string option, message;
  int64_t at = -1;  ///< byte offset of the error in a text option; -1: the whole value
};

/// A plugin's answer when it is created with these options.
struct PluginCheckResult {
  PluginNeeds needs;
  std::optional<OptionMistake> mistake;  ///< if set, `needs` is empty
};

}  // namespace wmtp
