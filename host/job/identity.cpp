#include "job/identity.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/work_progress.hpp"
#include "checkpoint/adapter_identity.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors_folder.hpp"
#include "checkpoint/verify.hpp"
#include "data/tokens/corpus.hpp"
#include "experiment/canonical.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/initial_weights.hpp"
#include "huggingface/params_file.hpp"
#include "io/file_digests.hpp"
#include "job/frozen_shape.hpp"

namespace wmtp {
namespace {

constexpr std::string_view run_prefix = "run:";

std::string file_hash(const std::filesystem::path& file, FileDigests& digests) {
  check_is_file(file);
  if (const auto known = digests.known(file)) return *known;
  WorkProgress progress("reading " + file.filename().string(), int64_t(std::filesystem::file_size(file)),
                        WorkProgress::Unit::bytes);
  return digests.read(file, &progress);
}

std::string named_hash(const std::filesystem::path& file, FileDigests& digests) {
  return file.filename().string() + " " + file_hash(file, digests) + "\n";
}

/// Of one file of weights, with the statement of its shape, if there is one: another rope_theta makes another model of
/// the same tensors.
std::string stated_file_hash(const std::filesystem::path& weights, FileDigests& digests) {
  const std::string content = file_hash(weights, digests);
  const auto statement = shape_statement(weights);
  if (!statement) return content;
  using Names = std::vector<const char*>;
  Sha256 hash;
  hash.add(content + "\n");
  for (const char* name : statement->is_hf ? Names{hf_config_name, heads_identity_name} : Names{params_file_name})
    if (is_there(statement->folder / name)) hash.add(named_hash(statement->folder / name, digests));
  return hash.hex();
}

std::string plugin_part(const Catalog& catalog, PluginKind kind, const std::string& name) {
  const auto description = catalog.describe(kind, name);
  return description.name + " " + description.version;
}

}  // namespace

std::string weights_content_hash(const std::filesystem::path& weights, const std::filesystem::path& database) {
  const bool is_folder = std::filesystem::is_directory(weights);
  if (const auto manifest = weights / manifest_file_name; is_folder && std::filesystem::exists(manifest))
    return file_sha256_hex(manifest);
  FileDigests digests(cache_folder_path(database) / "hashes.txt");
  if (!is_folder) return stated_file_hash(weights, digests);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(weights)) {
    const auto extension = entry.path().extension();
    if (entry.is_regular_file() && (extension == ".safetensors" || extension == ".json")) files.push_back(entry.path());
  }
  if (files.empty())
    throw Error(ExitStatus::data, weights.string() + " contains no weights: wanted *.safetensors in it");
  std::sort(files.begin(), files.end());
  Sha256 hash;
  for (const auto& file : files) hash.add(named_hash(file, digests));
  return hash.hex();
}

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

InputHashes input_hashes(const Experiment& e, const Stages& stages, const Catalog& catalog,
                         const std::filesystem::path& database) {
  InputHashes all;
  const auto add_plugin = [&](const std::string& table, PluginKind kind, const std::string& name) {
    all.emplace_back(table, [&catalog, kind, name] { return plugin_part(catalog, kind, name); });
  };
  all.emplace_back("data", [&e, &database] { return data_content_hash(e, cache_folder_path(database)); });
  add_plugin("pipeline", PluginKind::pipeline, e.pipeline.plugin);
  if (e.inner) add_plugin("pipeline.inner", PluginKind::pipeline, e.inner->plugin);
  if (e.auxiliary_loss) add_plugin("auxiliary_loss", PluginKind::auxiliary_loss, e.auxiliary_loss->plugin);
  add_plugin("adapter", PluginKind::adapter, e.adapter.plugin);
  if (!e.adapter_weights.empty())
    all.emplace_back("adapter.weights",
                     [&e, &database] { return weights_content_hash(resolve_adapter(e, database), database); });
  const auto add_weights = [&](const std::string& table, const std::string& weights) {
    if (!weights.empty())
      all.emplace_back(table + ".weights", [&e, &database, weights] {
        return weights_content_hash(resolve_weights(weights, e, database), database);
      });
  };
  add_weights("model", e.model.weights);
  for (const auto& [table, frozen] : frozen_tables(e)) {
    add_weights(table, frozen->weights);
    // The next-token head has no entry, so that its runs keep the identity that they had before there was a choice.
    if (reads_own_heads(table, e, database)) all.emplace_back(table + ".heads", [] { return "own"; });
  }
  for (const auto& [table, stage] : e.stages)
    all.emplace_back(table + ".experiment", [&stages, table = table] { return stages.at(table).config_hash; });
  return all;
}

std::string experiment_hash(const Experiment& experiment, const Stages& stages, const Catalog& catalog,
                            const std::filesystem::path& database) {
  IdentityParts parts;
  for (const auto& [input, hash] : input_hashes(experiment, stages, catalog, database)) parts[input] = hash();
  return config_hash(experiment, parts);
}

std::optional<RunInfo> reusable_run(const std::string& config_hash, const std::filesystem::path& database,
                                    const std::string& since,
                                    const std::function<bool(const LogReader&, int64_t run)>& fits) {
  const LogReader log(database);
  for (const auto& run : log.finished_with_hash(config_hash, since)) {
    if (fits && !fits(log, run.id)) continue;
    try {
      verify_checkpoint(model_in(run.folder));
      return run;
    } catch (const Error& error) {
      if (error.status() != ExitStatus::data) throw;  // damaged or missing: an older one may be complete
    }
  }
  return std::nullopt;
}

std::vector<std::string> rebuilt_plugins(const LogReader& log, int64_t run, const Experiment& e,
                                         const Catalog& catalog) {
  std::map<std::string, const PluginChoice*> choices{{"pipeline", &e.pipeline}, {"adapter", &e.adapter}};
  if (e.inner) choices["inner"] = &*e.inner;
  if (e.auxiliary_loss) choices["auxiliary_loss"] = &*e.auxiliary_loss;
  std::vector<std::string> rebuilt;
  const Table then = log.query("SELECT kind, version, sha256 FROM run_plugins WHERE run_id = ?1 ORDER BY kind", {run});
  for (const Row& row : then.rows) {
    const auto choice = choices.find(row[0].get<std::string>());
    if (choice == choices.end()) continue;
    const auto& [part, plugin] = *choice;
    const PluginKind kind = from_name<PluginKind>(part).value_or(PluginKind::pipeline);  // "inner" is one, too
    const PluginDescription now = catalog.describe(kind, plugin->plugin);
    if (row[1] == now.version && row[2] != now.sha256)
      rebuilt.push_back(std::string(to_string(kind)) + " " + now.name + " " + now.version);
  }
  return rebuilt;
}

std::string rebuilt_text(const std::string& use, const std::string& plugin) {
  return use + " another file of " + plugin +
         " than the one here; if its results have changed, raise the version in the plugin and train again";
}

}  // namespace wmtp
