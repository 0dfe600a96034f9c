#include "core/job/identity.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/work_progress.hpp"
#include "core/checkpoints/manifest.hpp"
#include "core/checkpoints/verify.hpp"
#include "core/corpus/corpus.hpp"
#include "core/experiment/canonical.hpp"
#include "io/durable_file.hpp"

namespace wmtp {
namespace {

constexpr std::string_view run_prefix = "run:";

std::filesystem::path cache_file(const std::filesystem::path& database) {
  return database.parent_path() / "cache" / "hashes.json";
}

nlohmann::json read_cache(const std::filesystem::path& file) {
  std::ifstream in(file);
  auto cache = nlohmann::json::parse(in, nullptr, false);
  return cache.is_object() ? cache : nlohmann::json::object();
}

void remember(const std::filesystem::path& cache, const std::string& key, const nlohmann::json& entry) {
  try {
    std::filesystem::create_directories(cache.parent_path());
    auto entries = read_cache(cache);  // reread, because another run may have changed it meanwhile
    entries[key] = entry;
    write_file_durably(cache, entries.dump(1) + "\n");
  } catch (const std::exception&) {  // the next run computes the hash again
  }
}

std::string cached_file_hash(const std::filesystem::path& file, const std::filesystem::path& database) {
  check_is_file(file);
  const auto cache = cache_file(database);
  const std::string key = std::filesystem::canonical(file).string();
  nlohmann::json entry{{"size", std::filesystem::file_size(file)},
                       {"mtime", std::filesystem::last_write_time(file).time_since_epoch().count()}};
  const auto entries = read_cache(cache);
  if (const auto known = entries.find(key); known != entries.end() && known->is_object()) {
    const auto sha256 = known->find("sha256");
    if (sha256 != known->end() && sha256->is_string() && known->value("size", nlohmann::json()) == entry["size"] &&
        known->value("mtime", nlohmann::json()) == entry["mtime"]) {
      return sha256->get<std::string>();
    }
  }
  WorkProgress progress("reading " + file.filename().string(), int64_t(std::filesystem::file_size(file)),
                        WorkProgress::Unit::bytes);
  const std::string hash = sha256_of_file(file, &progress);
  entry["sha256"] = hash;
  remember(cache, key, entry);
  return hash;
}

std::string plugin_part(const Catalog& catalog, const std::string& kind, const std::string& name) {
  const auto description = catalog.describe(kind, name);
  return description.name + " " + description.version;
}

}  // namespace

std::string weights_content_hash(const std::filesystem::path& weights, const std::filesystem::path& database) {
  if (!std::filesystem::is_directory(weights)) return cached_file_hash(weights, database);
  if (const auto manifest = weights / manifest_file_name; std::filesystem::exists(manifest))
    return sha256_of_file(manifest);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(weights)) {
    const auto extension = entry.path().extension();
    if (entry.is_regular_file() && (extension == ".safetensors" || extension == ".json")) files.push_back(entry.path());
  }
  if (files.empty()) {
    throw Error(ExitStatus::data, weights.string() + " contains no weights: wanted *.safetensors in it");
  }
  std::sort(files.begin(), files.end());
  Sha256 hash;
  for (const auto& file : files) hash.add(file.filename().string() + " " + cached_file_hash(file, database) + "\n");
  return hash.hex();
}

std::filesystem::path resolve_weights(const std::string& weights, const Experiment& experiment,
                                      const std::filesystem::path& database) {
  if (weights.starts_with(run_prefix)) {
    const std::string name = weights.substr(run_prefix.size());
    const auto run = LogReader(database).newest_finished(name);
    if (!run) {
      throw Error(ExitStatus::data, experiment.file.string() + ": weights = \"" + weights + "\": " + database.string() +
                                        " has no finished run named '" + name +
                                        "'; see `wmtp-host runs list`, or name another log with --db");
    }
    if (const auto model = model_in(run->folder); std::filesystem::exists(model)) return model;
    throw Error(ExitStatus::data, "run " + std::to_string(run->id) + " ('" + name + "') has no model in " +
                                      run->folder.string() + "; run its experiment again");
  }
  const auto path = experiment.resolve(weights);
  if (!std::filesystem::exists(path)) {
    throw Error(ExitStatus::data, experiment.file.string() + ": weights = \"" + weights + "\": there is no " +
                                      path.string() + "; wanted a safetensors file, a folder, or run:NAME");
  }
  return path;
}

std::filesystem::path resolve_adapter(const Experiment& experiment, const std::filesystem::path& database) {
  const std::string& weights = experiment.adapter_weights;
  const auto path = resolve_weights(weights, experiment, database);
  if (!weights.starts_with(run_prefix)) return path;
  if (const auto adapter = path.parent_path() / "adapter"; std::filesystem::exists(adapter)) return adapter;
  throw Error(ExitStatus::data, experiment.file.string() + ": [adapter] weights = \"" + weights +
                                    "\": that run left no " + (path.parent_path() / "adapter").string() +
                                    "; name a run whose adapter leaves the model frozen, as lora does");
}

InputHashes input_hashes(const Experiment& e, const Stages& stages, const Catalog& catalog,
                         const std::filesystem::path& database) {
  InputHashes all;
  const auto add_plugin = [&](const std::string& table, const std::string& kind, const std::string& name) {
    all.emplace_back(table, [&catalog, kind, name] { return plugin_part(catalog, kind, name); });
  };
  all.emplace_back("data", [&e] { return data_content_hash(e); });
  add_plugin("pipeline", "pipeline", e.pipeline.plugin);
  if (e.inner) add_plugin("pipeline.inner", "pipeline", e.inner->plugin);
  add_plugin("adapter", "adapter", e.adapter.plugin);
  if (!e.adapter_weights.empty())
    all.emplace_back("adapter.weights",
                     [&e, &database] { return weights_content_hash(resolve_adapter(e, database), database); });
  for (const auto& [input, weights] : {std::pair("model.weights", e.model.weights),
                                       {"reference.weights", e.reference.weights},
                                       {"value.weights", e.value.weights}})
    if (!weights.empty())
      all.emplace_back(input, [&e, &database, weights = weights] {
        return weights_content_hash(resolve_weights(weights, e, database), database);
      });
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

std::optional<LoggedRun> reusable_run(const std::string& config_hash, const std::filesystem::path& database) {
  for (const auto& run : LogReader(database).finished_with_hash(config_hash)) {
    try {
      verify_checkpoint(model_in(run.folder));
      return run;
    } catch (const Error& error) {
      if (error.status() != ExitStatus::data) throw;  // damaged or missing: an older one may be complete
    }
  }
  return std::nullopt;
}

}  // namespace wmtp
