#include "job/identity.hpp"

#include "data/tokens/corpus.hpp"
#include "experiment/canonical.hpp"
#include "job/frozen_shape.hpp"
#include "job/named_weights.hpp"
#include "job/weights_hash.hpp"
#include "log/run_folders.hpp"

namespace wmtp {
namespace {

std::string plugin_part(const Catalog& catalog, PluginKind kind, const std::string& name) {
  const auto description = catalog.describe(kind, name);
  return description.name + " " + description.version;
}

}  // namespace

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

}  // namespace wmtp
