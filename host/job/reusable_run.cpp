#include "job/reusable_run.hpp"

#include <map>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/verify.hpp"
#include "experiment/canonical.hpp"
#include "log/run_folders.hpp"
#include "log/run_log.hpp"

namespace wmtp {

int64_t data_ranks_of(const LogReader& log, int64_t run) {
  ParallelConfig layout;
  const Table params = log.query("SELECT key, CAST(value_num AS INTEGER) FROM run_params WHERE run_id = ?1", {run});
  for (const Row& row : params.rows)
    for (const auto& [key, value] : {std::pair("parallel.sequence", &layout.sequence),
                                     {"parallel.tensor", &layout.tensor},
                                     {"parallel.pipeline", &layout.pipeline}})
      if (row[0] == key) *value = row[1].get<int64_t>();
  const Table ranks = log.query("SELECT world_size FROM runs WHERE id = ?1", {run}, 1);
  return data_ranks(layout, ranks.rows.at(0)[0].get<int64_t>());
}

bool reads_as_many(const LogReader& log, int64_t run, const Experiment& experiment) {
  return experiment.train.global_batch_size > 0 ||
         data_ranks_of(log, run) == data_ranks(experiment.parallel, experiment.parallel.processes);
}

std::optional<RunInfo> reusable_run(const std::string& config_hash, const std::filesystem::path& database,
                                    const std::string& since, const RunFilter& fits) {
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

std::string difference_from_newest(const LogReader& log, const Experiment& experiment) {
  constexpr size_t most_named = 5;
  const Table newest = log.query("SELECT max(id) FROM runs WHERE name = ?1", {experiment.name});
  if (newest.rows.empty() || newest.rows[0][0].is_null()) return "";
  const int64_t run = newest.rows[0][0];
  const std::map<std::string, std::string> there = log.params(run);
  std::vector<std::string> different;
  for (const auto& [key, value] : identity_values(experiment)) {
    const auto shown = [&](const std::string& param) {
      const std::string text = printable(param);
      return std::holds_alternative<std::string>(value) ? text : text.substr(1, text.size() - 2);
    };
    const std::string here = param_text(value);
    const auto found = there.find(key);
    if (found == there.end())
      different.push_back("no " + key + " (here " + shown(here) + ")");
    else if (found->second != here)
      different.push_back(key + " = " + shown(found->second) + " (here " + shown(here) + ")");
  }
  const std::string which = "; the newest run of its name, " + std::to_string(run) + ", has ";
  if (different.empty()) return which + "the same settings, but other data, weights, plugins, stages or ranks";
  if (different.size() > most_named) {
    different.resize(most_named);
    different.emplace_back("other differences");
  }
  return which + join_names(different);
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
