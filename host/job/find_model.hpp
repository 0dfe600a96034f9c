// Finds the model that a user names: a folder, or a run of the log. A run's model is the one that it saved at its end;
// of a run that did not finish, its newest checkpoint. A checkpoint is read as a model where it is, unless its run
// trained only a part of the model: then the complete model is written once, to the cache folder beside the log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "log/log_reader.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {

struct FoundModel {
  std::filesystem::path folder;  ///< a model, a Hugging Face model or a checkpoint
  int64_t run_id = 0;            ///< 0 for a folder
  bool is_final = true;          ///< false for a checkpoint
  std::string note = {};         ///< what was chosen, if that is not obvious: "run 3 ('base') is interrupted: …"
};

/// `text`: the folder of a model, of a checkpoint or of a run; if no such folder exists, what find_run_model takes.
/// Error(usage) with the nearest name if there is none; Error(data) if the folder or run has no model, with the command
/// that makes one.
FoundModel find_model(const std::string& text, const std::filesystem::path& database);

/// `text`: the number or name of a run (the newest finished one of that name, else the newest), or RUN@STEP, or
/// RUN@best, the checkpoint of the lowest validation loss of head 1, or of an objective's own loss. Checkpoints of runs
/// that it resumed count as its own.
FoundModel find_run_model(const std::string& text, const std::filesystem::path& database);

/// Whether a folder contains a run's model/ or its checkpoints, and is no model itself.
bool is_run_folder(const std::filesystem::path& folder);

/// The folder as it can be read: of a partial checkpoint the complete model in the cache folder, written by the engine
/// unless it is there. Error(data) if that cannot be made. [not on ranks]
std::filesystem::path ensure_complete_model(const std::filesystem::path& folder, const std::filesystem::path& database,
                                            const Catalog& catalog);

/// The same without writing. Error(data) if the complete model is not in the cache folder.
std::filesystem::path find_complete_model(const std::filesystem::path& folder, const std::filesystem::path& database);

/// Writes the complete model of a partial checkpoint to `target`. Errors as above.
void write_complete_model(const std::filesystem::path& checkpoint, const std::filesystem::path& target,
                          const std::filesystem::path& database, const Catalog& catalog);

/// find_model, then ensure_complete_model; logs the note.
FoundModel open_model(const std::string& text, const std::filesystem::path& database,
                      const std::vector<std::filesystem::path>& plugin_folders);

}  // namespace wmtp
