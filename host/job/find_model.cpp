#include "job/find_model.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/sha256.hpp"
#include "base/shell_text.hpp"
#include "base/text.hpp"
#include "checkpoint/adapter_identity.hpp"
#include "checkpoint/base_model.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/retention.hpp"
#include "checkpoint/safetensors_folder.hpp"
#include "checkpoint/saved_state.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/lora_options.hpp"
#include "job/engine_process.hpp"
#include "job/weights_hash.hpp"
#include "log/run_folders.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

bool holds_model(const fs::path& folder) {
  return is_there(folder / params_file_name) || is_there(folder / hf_config_name);
}

Error refusal(const fs::path& folder, const std::string& why) {
  return Error(ExitStatus::data, folder.string() + " " + why);
}

/// Error(data) for a checkpoint of a version that did not save the model's shape beside it.
fs::path checked_checkpoint(const fs::path& folder) {
  if (is_there(folder / params_file_name)) return folder;
  throw refusal(folder,
                "was saved by an earlier version, which did not write the model's shape beside the checkpoint; "
                "continue its run with `wmtp-host run FILE --resume`, which saves a new checkpoint");
}

/// Error(data) that says what the folder is instead, and what to do with it.
[[noreturn]] void refuse_folder(const fs::path& folder) {
  const std::string path = shell_path(folder.string());
  if (is_there(folder / adapter_identity_name))
    throw refusal(folder, "contains an adapter without its model; `wmtp-host checkpoint merge " + path +
                              " --base MODEL -o DIR` makes one");
  if (is_there(folder / peft_config_name))
    throw refusal(folder, "contains a PEFT adapter; `wmtp-host checkpoint import " + path +
                              " --base MODEL -o ADAPTER`, then `wmtp-host checkpoint merge ADAPTER --base MODEL -o "
                              "DIR` make a model");
  throw refusal(folder,
                "contains no model: wanted params.json and model.safetensors (a run's model/), config.json and "
                "safetensors files (Hugging Face), a checkpoint step-NNNNNN/, or a run's folder with one of them");
}

std::string title(const RunInfo& run) { return "run " + std::to_string(run.id) + " ('" + run.name + "') "; }

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

RunInfo find_run(const LogReader& log, const std::string& run) {
  const int64_t id = log.resolve_run(run);
  if (!is_number(run))
    if (const auto finished = log.newest_finished(run)) return *finished;
  return log.run(id);
}

/// The folders of a run and of those that it resumed, newest first.
std::vector<fs::path> folders_of_lineage(const LogReader& log, int64_t run_id) {
  std::vector<int64_t> segments;
  log.each_row("SELECT segment FROM v_lineage WHERE run_id = ?1 ORDER BY segment DESC", {run_id},
               [&](const Statement& row) { segments.push_back(row.integer(0)); });
  std::vector<fs::path> folders;
  for (const int64_t segment : segments) folders.push_back(log.run(segment).folder);
  return folders;
}

std::vector<fs::path> checkpoints_in(const std::vector<fs::path>& run_folders) {
  std::vector<fs::path> all;
  for (const fs::path& folder : run_folders) {
    const std::vector<fs::path> here = list_checkpoints(folder);
    all.insert(all.end(), here.begin(), here.end());
  }
  return all;
}

FoundModel at_step(const RunInfo& run, int64_t step, const std::vector<fs::path>& run_folders) {
  const std::vector<fs::path> all = checkpoints_in(run_folders);
  std::vector<std::string> steps;
  for (const fs::path& folder : all) {
    const int64_t found = parse_checkpoint_step(folder.filename().string());
    if (found == step) return {checked_checkpoint(folder), run.id, false};
    steps.push_back(std::to_string(found));
  }
  if (const fs::path model = model_in(run.folder); holds_model(model) && is_there(model / manifest_file_name))
    if (read_manifest(model).step == step) return {model, run.id};
  throw Error(ExitStatus::data, title(run) + "has no checkpoint of step " + std::to_string(step) +
                                    (steps.empty() ? ", nor any other" : "; it has those of " + join_names(steps)) +
                                    "; [checkpoint] every_steps and keep decide which are kept");
}

FoundModel best_of(const RunInfo& run, const std::vector<fs::path>& run_folders) {
  const auto best = best_checkpoint(checkpoints_in(run_folders));
  if (!best)
    throw Error(ExitStatus::data, title(run) +
                                      "has no checkpoint that was saved at a validation; [checkpoint] keep_best = true "
                                      "saves one at each that is better than all before");
  const double loss = *saved_state(best->manifest, best->folder.string()).results.valid_loss;
  return {checked_checkpoint(best->folder), run.id, false,
          title(run) + "has its lowest validation loss " + printed("%.4f", loss) + " at step " +
              std::to_string(best->manifest.step)};
}

/// What a name that several runs have stands for; "" for a number, or the name of one run.
std::string choice_text(const LogReader& log, const std::string& text, const RunInfo& run) {
  if (is_number(text)) return "";
  const int64_t runs = log.query("SELECT count(*) FROM runs WHERE name = ?1", {text}).rows.at(0)[0];
  if (runs < 2) return "";
  return title(run) + "is the newest " + (run.status == "finished" ? "finished " : "") + "one of the " +
         counted(runs, "run") + " of this name";
}

/// The model saved at the end, else the newest checkpoint.
FoundModel last_of(const RunInfo& run, const std::vector<fs::path>& run_folders) {
  if (const fs::path model = model_in(run.folder); holds_model(model)) return {model, run.id};
  if (run.status == "finished")
    throw Error(ExitStatus::data,
                title(run) + "has no model in " + model_in(run.folder).string() + "; run its experiment again");
  const std::vector<fs::path> all = checkpoints_in(run_folders);
  if (all.empty())
    throw Error(ExitStatus::data, title(run) + "has no model and no checkpoint: it is " + run.status +
                                      "; `wmtp-host run … --resume` continues it");
  return {checked_checkpoint(all.front()), run.id, false,
          title(run) + "is " + run.status + ": its model is that of step " +
              std::to_string(parse_checkpoint_step(all.front().filename().string()))};
}

FoundModel model_in_folder(const fs::path& folder) {
  if (is_training_checkpoint(folder)) return {checked_checkpoint(folder), 0, false};
  for (const fs::path& place : {folder, model_in(folder)})
    if (holds_model(place)) return {place, 0};
  const std::vector<fs::path> all = list_checkpoints(folder);
  if (all.empty()) refuse_folder(folder);
  return {checked_checkpoint(all.front()), 0, false,
          folder.string() + " has no finished model: its model is that of " + all.front().filename().string()};
}

fs::path completed_folder(const fs::path& checkpoint, const fs::path& database) {
  return cache_folder_path(database) / "models" / file_sha256_hex(checkpoint / manifest_file_name).substr(0, 16);
}

}  // namespace

bool is_run_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder, ignored) && !holds_model(folder) &&
         (holds_model(model_in(folder)) || !list_checkpoints(folder).empty());
}

FoundModel find_model(const std::string& text, const fs::path& database) {
  std::error_code ignored;
  if (fs::is_directory(text, ignored)) return model_in_folder(text);
  if (text.find('/') != std::string::npos || is_there(text))
    throw Error(ExitStatus::usage, text + (is_there(text) ? " is not a folder" : " does not exist") +
                                       "; wanted a model's folder, or a run's number or name");
  return find_run_model(text, database);
}

FoundModel find_run_model(const std::string& text, const fs::path& database) {
  const size_t at = text.find('@');
  const LogReader log(database);
  const RunInfo run = find_run(log, text.substr(0, at));
  const std::vector<fs::path> folders = folders_of_lineage(log, run.id);
  if (at == std::string::npos) {
    FoundModel last = last_of(run, folders);
    if (last.note.empty()) last.note = choice_text(log, text, run);
    return last;
  }
  const std::string which = text.substr(at + 1);
  if (which == "best") return best_of(run, folders);
  if (const auto step = is_number(which) ? parsed_number(which) : std::nullopt) return at_step(run, *step, folders);
  throw Error(ExitStatus::usage, text + ": found " + printable(which) + " after the @, wanted a step or \"best\"");
}

fs::path find_complete_model(const fs::path& folder, const fs::path& database) {
  if (!is_partial_checkpoint(folder)) return folder;
  if (const fs::path complete = completed_folder(folder, database); is_there(complete)) return complete;
  throw refusal(folder,
                "holds only what its run trains, and this rank cannot join it with its base model; "
                "`wmtp-host checkpoint merge " +
                    shell_path(folder.string()) + " -o DIR` does, and DIR can be named instead");
}

fs::path ensure_complete_model(const fs::path& folder, const fs::path& database, const Catalog& catalog) {
  if (!is_partial_checkpoint(folder)) return folder;
  const fs::path target = completed_folder(folder, database);
  if (!is_there(target)) write_complete_model(folder, target, database, catalog);
  return target;
}

void write_complete_model(const fs::path& folder, const fs::path& target, const fs::path& database,
                          const Catalog& catalog) {
  const BaseModel base = read_base_model(folder);
  if (!base.weights.empty()) {
    if (!is_there(base.weights)) throw refusal(folder, "was trained from " + base.weights + ", which is not there");
    if (weights_content_hash(base.weights, database) != base.weights_hash)
      throw refusal(folder, "was trained from " + base.weights + ", whose content has changed");
  }
  complete_with_engine({folder, target, {catalog.describe(PluginKind::adapter, base.adapter), base.options}});
}

FoundModel open_model(const std::string& text, const fs::path& database, const std::vector<fs::path>& plugin_folders) {
  FoundModel found = find_model(text, database);
  if (!found.note.empty()) log_info(found.note);
  found.folder = ensure_complete_model(found.folder, database, Catalog(plugin_folders));
  return found;
}

}  // namespace wmtp
