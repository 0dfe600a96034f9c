#include "job/find_model.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "job/identity.hpp"
#include "log/log_reader.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

bool holds_model(const fs::path& folder) { return fs::exists(folder / "params.json"); }

fs::path model_in_folder(const fs::path& folder) {
  for (const fs::path& place : {folder, model_in(folder)})
    if (holds_model(place)) return place;
  throw Error(ExitStatus::data,
              folder.string() + " contains no finished model: wanted params.json and model.safetensors in it or in " +
                  "its model/, where a run writes them at its end");
}

RunInfo find_run(const LogReader& log, const std::string& run) {
  const bool number = !run.empty() && std::all_of(run.begin(), run.end(), ::isdigit);
  const int64_t id = log.resolve_run(run);
  if (!number)
    if (const auto finished = log.newest_finished(run)) return *finished;
  return log.run(id);
}

}  // namespace

FoundModel find_model(const std::string& run_or_folder, const fs::path& database) {
  if (fs::is_directory(run_or_folder)) return {model_in_folder(run_or_folder), 0};
  if (run_or_folder.find('/') != std::string::npos || fs::exists(run_or_folder))
    throw Error(ExitStatus::usage, run_or_folder +
                                       (fs::exists(run_or_folder) ? " is not a folder" : " does not exist") +
                                       "; wanted a model's folder, or a run's number or name");
  const RunInfo run = find_run(LogReader(database), run_or_folder);
  const fs::path model = model_in(run.folder);
  if (holds_model(model)) return {model, run.id};
  const std::string which = "run " + std::to_string(run.id) + " ('" + run.name + "') ";
  if (run.status != "finished")
    throw Error(ExitStatus::data, which + "has no model: it is " + run.status +
                                      ", and a model is written at the end; `wmtp-host run … --resume` continues it");
  throw Error(ExitStatus::data, which + "has no model in " + model.string() + "; run its experiment again");
}

}  // namespace wmtp
