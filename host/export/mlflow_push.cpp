#include "export/mlflow_push.hpp"

#include <fstream>

#include "base/error.hpp"
#include "base/text.hpp"
#include "export/run_export_reader.hpp"
#include "export/tables.hpp"
#include "io/scratch_folder.hpp"
#include "process/python_program.hpp"

namespace wmtp {
namespace {

constexpr std::chrono::hours limit{2};

/// The runs as written by write_runs_json, and their ids in MLflow.
void write_input(const LogReader& log, const std::vector<int64_t>& runs, const std::filesystem::path& file) {
  std::ofstream out(file);
  Json ids;
  for (const int64_t run : runs) {
    const Table started = log.query("SELECT started_at FROM runs WHERE id = ?1", {run});
    ids[std::to_string(run)] = tracked_run_id(log.database(), run, started.rows.at(0)[0].get<std::string>());
  }
  out << "{\"ids\": " << ids.dump() << ", \"runs\": ";
  write_runs_json(log, runs, [&](std::string_view text) { out << text; });
  out << "}";
  out.close();
  if (!out) throw Error(ExitStatus::storage, "cannot write " + file.string());
}

}  // namespace

std::string push_mlflow(const LogReader& log, const std::vector<int64_t>& runs, const std::string& tracking_uri) {
  const PythonProgram program{"mlflow_push.py", "sends runs to MLflow", "mlflow"};
  const ScratchFolder folder;
  const std::filesystem::path input = folder.path() / "runs.json";
  write_input(log, runs, input);
  const ChildResult result = run_child(program.request({input.string(), tracking_uri}), limit);
  if (result.exit_code == 0 && result.signal == 0) return result.output;
  throw Error(ExitStatus::usage, "pushing to " + tracking_uri + ": " + last_line(result.messages));
}

}  // namespace wmtp
