#include "job/named_weights.hpp"

#include <string_view>

#include "base/error.hpp"
#include "base/files.hpp"
#include "checkpoint/adapter_identity.hpp"
#include "checkpoint/safetensors_folder.hpp"
#include "log/log_reader.hpp"

namespace wmtp {
namespace {

constexpr std::string_view run_prefix = "run:";

}  // namespace

FoundModel find_weights(const std::string& weights, const Experiment& experiment,
                        const std::filesystem::path& database) {
  const auto refusal = [&](const std::string& reason) {
    return Error(ExitStatus::data, experiment.file.string() + ": weights = \"" + weights + "\": " + reason);
  };
  if (!weights.starts_with(run_prefix)) {
    const auto path = experiment.resolve(weights);
    if (is_training_checkpoint(path) || is_run_folder(path)) return find_model(path, database);
    if (std::filesystem::exists(path)) return {path};
    throw refusal("there is no " + path.string() + "; wanted a safetensors file, a folder, or run:NAME");
  }
  try {
    FoundModel found = find_run_model(weights.substr(run_prefix.size()), database);
    if (found.is_final || weights.find('@') != std::string::npos) return found;
    if (LogReader(database).run(found.run_id).status != "running") return found;
  } catch (const Error& error) {
    if (error.status() != ExitStatus::usage && error.status() != ExitStatus::data) throw;
    throw refusal(error.what());
  }
  throw refusal("that run is active, and its newest checkpoint changes; name one as " + weights + "@STEP");
}

std::filesystem::path resolve_weights(const std::string& weights, const Experiment& experiment,
                                      const std::filesystem::path& database) {
  return find_weights(weights, experiment, database).folder;
}

std::filesystem::path resolve_adapter(const Experiment& experiment, const std::filesystem::path& database) {
  const std::string& weights = experiment.adapter_weights;
  const auto refusal = [&](const std::string& reason) {
    return Error(ExitStatus::data, experiment.file.string() + ": [adapter] weights = \"" + weights + "\": " + reason);
  };
  const bool is_run = weights.starts_with(run_prefix);
  const std::filesystem::path folder =
      is_run ? resolve_weights(weights, experiment, database) : std::filesystem::path(experiment.resolve(weights));
  if (!is_run && !std::filesystem::is_directory(folder))
    throw refusal(
        (std::filesystem::exists(folder) ? folder.string() + " is not a folder" : "there is no " + folder.string()) +
        "; wanted the adapter folder of a run, the folder of an imported adapter, or run:NAME");
  if (!is_run && !is_run_folder(folder)) return folder;
  if (is_training_checkpoint(folder) && is_there(folder / adapter_identity_name)) return folder;
  const auto adapter = (is_run ? folder.parent_path() : folder) / "adapter";
  if (std::filesystem::exists(adapter)) return adapter;
  throw refusal("that run left no " + adapter.string() + "; name a run whose adapter adds parameters to the model");
}

}  // namespace wmtp
