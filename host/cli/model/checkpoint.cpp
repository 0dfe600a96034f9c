// `checkpoint list RUN` and `checkpoint verify PATH`.
#include <iostream>
#include <memory>
#include <set>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/retention.hpp"
#include "checkpoint/saved_state.hpp"
#include "checkpoint/verify.hpp"
#include "cli/command.hpp"
#include "job/find_model.hpp"
#include "log/log_reader.hpp"
#include "report/table.hpp"

namespace wmtp {
namespace {

struct Options {
  std::string run, path;
  bool json = false;
};

/// What a checkpoint's manifest says of its run; nothing if the checkpoint is gone or damaged.
RunProgress results_in(const std::filesystem::path& folder) {
  if (!is_there(folder / manifest_file_name)) return {};
  try {
    return saved_state(read_manifest(folder), folder.string()).results;
  } catch (const Error& error) {
    if (error.status() != ExitStatus::data) throw;
    return {};  // `checkpoint verify` says what is damaged
  }
}

/// Adds the results of the run at each checkpoint, and which has the lowest validation loss.
void add_results(Table& table) {
  std::vector<std::filesystem::path> folders;
  for (const Row& row : table.rows) folders.emplace_back(row[1].get<std::string>());
  const auto best = best_checkpoint(folders);
  for (const char* name : {"epoch", "train_loss", "valid_loss", "valid_step", "best"}) table.columns.emplace_back(name);
  for (size_t i = 0; i < folders.size(); ++i) {
    const RunProgress results = results_in(folders[i]);
    for (const auto& value : {results.epoch, results.train_loss, results.valid_loss})
      table.rows[i].push_back(value ? Json(*value) : Json());
    table.rows[i].push_back(results.valid_loss ? Json(results.valid_step) : Json());
    table.rows[i].push_back(best && best->folder == folders[i] ? Json("best") : Json());
  }
}

int list(const Options& options, const GlobalOptions& globals) {
  const LogReader log(globals.database_or(default_database));
  Table table = log.query(
      "SELECT step, path, bytes, state FROM checkpoints WHERE run_id IN "
      "(SELECT segment FROM v_lineage WHERE run_id = ?1) ORDER BY step, run_id",
      {log.resolve_run(options.run)});
  const size_t deleted =
      options.json ? 0 : std::erase_if(table.rows, [](const Row& row) { return row[3] == "deleted"; });
  add_results(table);
  print_table(std::cout, table, options.json ? TableFormat::json : TableFormat::text);
  if (deleted > 0) std::cout << "not listed: " << deleted << " deleted; --json has them\n";
  return 0;
}

int verify(const Options& options, const GlobalOptions& globals) {
  const bool is_folder = std::filesystem::is_directory(options.path) && !is_run_folder(options.path);
  const std::string path =
      is_folder ? options.path : find_model(options.path, globals.database_or(default_database)).folder.string();
  const Manifest manifest = verify_checkpoint(path);
  int64_t bytes = 0;
  for (const auto& [name, size] : manifest.files) bytes += size;
  const auto num_files = int64_t(manifest.files.size());
  std::set<std::string> hosts;  // that keep files which are not here
  for (const auto& [name, host] : manifest.hosts)
    if (!is_there(std::filesystem::path(path) / name)) hosts.insert(host);
  if (options.json) {
    std::cout << OrderedJson{{"path", path},        {"kind", manifest.kind}, {"step", manifest.step},
                             {"files", num_files},  {"bytes", bytes},        {"config_hash", manifest.config_hash},
                             {"other_hosts", hosts}}
                     .dump(2)
              << '\n';
  } else {
    std::cout << path << ": complete";
    if (!hosts.empty()) std::cout << " together with the files on " << join_names({hosts.begin(), hosts.end()});
    std::cout << " (" << to_string(manifest.kind) << ", step " << manifest.step << ", " << counted(num_files, "file")
              << ", " << human_bytes(bytes) << ")\n";
  }
  return 0;
}

}  // namespace

void add_checkpoint(CommandLine& line) {
  const auto options = std::make_shared<Options>();
  line.add_group("checkpoint", "list, verify, export, import and merge checkpoints");
  auto& all = line.add("checkpoint list",
                       "list the checkpoints of a run, with its losses when they were saved\n\nexamples:\n  wmtp-host "
                       "checkpoint list rho1\n",
                       [options](const GlobalOptions& globals) { return list(*options, globals); });
  add_option(all, "RUN", options->run, run_argument, required);
  auto& one = line.add("checkpoint verify",
                       "verify every checksum of a checkpoint or model\n\n"
                       "examples:\n  wmtp-host checkpoint verify rho1\n"
                       "  wmtp-host checkpoint verify runs/2-rho1/model\n",
                       [options](const GlobalOptions& globals) { return verify(*options, globals); });
  add_option(one, "MODEL", options->path, "run (RUN, RUN@STEP or RUN@best), or the folder of a checkpoint or model",
             required);
  for (CLI::App* app : {&all, &one}) app->add_flag("--json", options->json, "print JSON");
}

}  // namespace wmtp
