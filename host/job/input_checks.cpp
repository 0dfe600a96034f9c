#include "job/input_checks.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors_folder.hpp"
#include "checkpoint/verify.hpp"
#include "data/tokens/corpus.hpp"
#include "data/tokens/token_windows.hpp"
#include "experiment/load/stage_rules.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/initial_weights.hpp"
#include "huggingface/params_file.hpp"
#include "job/find_model.hpp"
#include "job/frozen_shape.hpp"
#include "job/named_weights.hpp"
#include "job/tokenizer_check.hpp"

namespace wmtp {
namespace {

void check_frozen(const std::string& table, const FrozenConfig& config, const Experiment& experiment,
                  const Catalog& catalog, const std::filesystem::path& database) {
  if (const Experiment* stage = experiment.stage(table))
    if (const std::string misfit = block_misfit(stage->model, experiment.parallel); !misfit.empty())
      throw Error(ExitStatus::usage,
                  experiment.file.string() + ": [parallel] " + misfit + " (of " + stage->file.string() + ")");
  if (config.weights.empty()) return;
  const auto weights = find_complete_model(resolve_weights(config.weights, experiment, database), database);
  const FrozenShape shape = frozen_shape(table, experiment, weights);
  check_frozen_shape(table, weights, shape.model, experiment,
                     table == "value" && pipeline_needs(experiment, catalog).scores);
  check_frozen_tokenizer(table, weights, experiment, /*prepared=*/{});
  check_initial_weights(weights, shape.model, shape.token_heads);
}

/// The positions that scaling makes of `longest`.
double scaled_positions(const RopeScaling& scaling, int64_t longest) {
  const int64_t original = scaling.original_max_position_embeddings;
  return scaling.factor * double(original > 0 ? original : longest);
}

/// Positions that the weights do not state to know, and that no scaling leads back to known ones; "" if there are none.
std::string length_difference(const std::filesystem::path& weights, const ModelConfig& model, int64_t sequence_length) {
  const auto longest = stated_sequence_length(weights);
  if (!longest || *longest >= sequence_length) return "";
  if (model.rope_scaling && scaled_positions(*model.rope_scaling, *longest) >= double(sequence_length)) return "";
  return "its sequences have at most " + std::to_string(*longest) + " tokens, and train.sequence_length is " +
         std::to_string(sequence_length) +
         ": the positions beyond are new to the model; set train.sequence_length to " + std::to_string(*longest) +
         ", or scale the positions with [model] rope_scaling";
}

}  // namespace

std::vector<std::filesystem::path> verify_named_checkpoints(const Experiment& experiment,
                                                            const std::filesystem::path& database) {
  std::vector<std::filesystem::path> checkpoints;
  std::vector<std::string> named{experiment.model.weights};
  for (const auto& [table, frozen] : frozen_tables(experiment)) named.push_back(frozen->weights);
  for (const std::string& weights : named) {
    if (weights.empty()) continue;
    const FoundModel found = find_weights(weights, experiment, database);
    if (!found.note.empty()) log_info(found.note);
    // The manifest identifies the weights and what was computed with them, so that they must be what it says.
    if (std::filesystem::exists(found.folder / manifest_file_name)) verify_checkpoint(found.folder);
    if (is_training_checkpoint(found.folder)) checkpoints.push_back(found.folder);
  }
  return checkpoints;
}

void check_inputs(const Experiment& experiment, int64_t processes, const Catalog& catalog, ExperimentHashes& hashes,
                  const std::filesystem::path& database) {
  for (const auto& checkpoint : verify_named_checkpoints(experiment, database))
    ensure_complete_model(checkpoint, database, catalog);
  hashes.hash(experiment);
  if (experiment.data.kind == DataKind::tokens)
    open_token_parts(experiment, split_tokens(experiment), data_ranks(experiment.parallel, processes));
  if (const std::string& weights = experiment.model.weights; !weights.empty()) {
    const bool objective =
        catalog.describe(PluginKind::pipeline, experiment.pipeline.plugin).role == PluginRole::objective;
    check_initial_weights(find_complete_model(resolve_weights(weights, experiment, database), database),
                          experiment.model, objective ? 0 : experiment.model.future_tokens);
  }
  for (const auto& [table, frozen] : frozen_tables(experiment))
    check_frozen(table, *frozen, experiment, catalog, database);
}

std::vector<std::string> weight_warnings(const std::string& table, const std::filesystem::path& weights,
                                         const ModelConfig& model, const Experiment& experiment,
                                         const std::filesystem::path& prepared) {
  std::vector<std::string> warnings = math_differences(weights, model);
  // A frozen model's heads are read only if they predict the same tokens, and its tokenizer is that of the data.
  if (table == "model")
    for (std::string difference :
         {offsets_difference(weights, model), length_difference(weights, model, experiment.train.sequence_length),
          tokenizer_difference(weights, experiment, prepared)})
      if (!difference.empty()) warnings.push_back(std::move(difference));
  if (const auto statement = shape_statement(weights); statement && statement->is_hf)
    std::ranges::move(
        table == "model" ? training_differences(statement->folder) : code_differences(statement->folder),
        std::back_inserter(warnings));
  for (std::string& warning : warnings) warning = "[" + table + "] weights " + weights.string() + ": " + warning;
  return warnings;
}

void check_offload_folder(const Experiment& experiment) {
  if (experiment.parallel.offload_path.empty()) return;
  const std::filesystem::path folder = experiment.resolve(experiment.parallel.offload_path);
  std::error_code unknown;
  if (!std::filesystem::is_directory(folder, unknown))
    throw Error(ExitStatus::storage, "[parallel] offload_path: there is no folder " + folder.string() +
                                         " on this host; create it, or name a folder on a local disk");
}

std::vector<std::string> input_warnings(const Experiment& experiment, const std::filesystem::path& database) {
  std::vector<std::string> warnings = data_warnings(experiment);
  const auto add = [&](const std::string& table, const std::string& named, const std::optional<ModelConfig>& given) {
    if (named.empty()) return;
    const auto weights = find_complete_model(resolve_weights(named, experiment, database), database);
    const ModelConfig model = given ? *given : read_model_config(weights, experiment.model);
    std::ranges::move(weight_warnings(table, weights, model, experiment, /*prepared=*/{}),
                      std::back_inserter(warnings));
  };
  add("model", experiment.model.weights, experiment.model);
  for (const auto& [table, frozen] : frozen_tables(experiment)) add(table, frozen->weights, frozen->model);
  return warnings;
}

void check_frozen_shape(const std::string& table, const std::filesystem::path& weights, const ModelConfig& frozen,
                        const Experiment& experiment, bool reads_scores) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(ExitStatus::data, "[" + table + "] " + weights.string() + ": " + reason);
  };
  const int64_t vocab_size = experiment.model.vocab_size;
  if (frozen.vocab_size != vocab_size)
    refuse("its vocabulary has " + std::to_string(frozen.vocab_size) + " ids, the policy's " +
           std::to_string(vocab_size) + "; both must share a tokenizer");
  if (const std::string misfit = block_misfit(frozen, experiment.parallel); !misfit.empty())
    refuse("[parallel] " + misfit);
  // A table of the shape is checked with the experiment.
  const auto longest = frozen_config(experiment, table).model ? std::nullopt : stated_sequence_length(weights);
  if (longest && *longest < experiment.train.sequence_length)
    refuse("its sequences have at most " + std::to_string(*longest) +
           " tokens, wanted train.sequence_length = " + std::to_string(experiment.train.sequence_length) +
           "; lower that or, if the model can read longer ones, set " +
           "max_sequence_length, with rope_scaling if it needs one, in [" + table +
           ".model], which states the whole shape where it differs from [model]");
  if (table != "value") return;
  const Json heads =
      is_params_folder(weights) ? read_params(weights, SafetensorsFolder(weights)).value_heads : Json::array();
  if (heads.size() != 1)
    refuse("wanted a model with one value head, found " + std::to_string(heads.size()) +
           "; train one with pipeline critic");
  if (!reads_scores && heads[0].value("meaning", "value") == "score")
    refuse(
        std::string(
            "its value head was trained on scores, which rank answers and are not expected outcomes, wanted values; ") +
        scores_hint);
}

void check_frozen_parameters(const Experiment& experiment, bool freezes) {
  const ParallelConfig& parallel = experiment.parallel;
  if (parallel.replicate_frozen && !freezes)
    throw Error(ExitStatus::usage, experiment.file.string() + ": [parallel] replicate_frozen = true: adapter \"" +
                                       experiment.adapter.plugin + "\" freezes no parameter; remove it");
  const auto frozen_models = frozen_tables(experiment);
  const bool has_frozen = std::ranges::any_of(frozen_models, [](const auto& one) { return one.second->given; });
  if (parallel.cpu_offload == CpuOffload::all && !freezes && !has_frozen)
    throw Error(ExitStatus::usage, experiment.file.string() +
                                       ": [parallel] cpu_offload = \"all\": there are no frozen parameters; set true");
}

}  // namespace wmtp
