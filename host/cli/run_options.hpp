// What the line of `run` asks for, and the job that follows from it and the file. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "core/config/source_texts.hpp"
#include "core/job/job.hpp"
#include "core/plugins/catalog.hpp"

namespace wmtp {

struct RunOptions {
  std::vector<std::string> files;
  std::string file, name;   ///< file: the one of them that is run
  std::string name_suffix;  ///< of a member of a sweep, whose file says the name itself
  std::string stages;       ///< the launcher's, as text
  std::string sources;      ///< the launcher's SourceTexts
  std::vector<std::string> overrides, held_out;
  int64_t nproc = 0;  ///< 0: not given
  int64_t jobs = 0;   ///< members that run beside each other; 0: not given
  bool resume = false, dry_run = false;
  bool resume_stages = false;      ///< of a member of a sweep, which itself is resumed only if it was begun
  bool member = false;             ///< of a sweep or of several files, as the overrides have it
  bool hold_out_problems = false;  ///< as a stage of an experiment that does
  double hold_out_share = 0;       ///< likewise
};

/// Reads and checks the file, with what the line overrides. Errors as load_experiment.
Job make_job(const RunOptions& options, const GlobalOptions& globals, const Catalog& catalog, SourceTexts& texts);

/// Takes over a foreign launcher's number of ranks. Error(usage) when the file or the line says another. [after the
/// experiment is checked]
void agree_on_processes(const RunOptions& options, int64_t world_size, Experiment& experiment);

}  // namespace wmtp
