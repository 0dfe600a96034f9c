#include "run/recorder.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "base/text.hpp"
#include "experiment/canonical.hpp"
#include "log/log_reader.hpp"
#include "memory/allocator.hpp"
#include "report/summary.hpp"

namespace wmtp {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// The commit that the experiment's folder stands at, with "+changes" when its tree is not clean; "" outside git.
std::string git_commit(const std::filesystem::path& folder) {
  const std::string command =
      "cd '" + folder.string() +
      "' 2>/dev/null && git describe --always --abbrev=40 --dirty=+changes --exclude '*' 2>/dev/null";
  std::string commit;
  if (folder.string().find('\'') != std::string::npos) return commit;
  if (std::FILE* pipe = popen(command.c_str(), "r")) {
    std::array<char, 128> line{};
    if (std::fgets(line.data(), int(line.size()), pipe)) commit = line.data();
    pclose(pipe);
  }
  while (!commit.empty() && commit.back() == '\n') commit.pop_back();
  return commit;
}

RunStart run_start(Session& session, const Experiment& experiment, const Identity& identity, int64_t parent_run) {
  RunStart start;
  start.name = experiment.name;
  start.pipeline = experiment.pipeline.plugin;
  start.adapter = experiment.adapter.plugin;
  start.experiment_toml = experiment.source;
  start.resolved_toml = to_toml(experiment);
  start.config_hash = identity.config_hash;
  start.seed = experiment.seed;
  start.world_size = session.size();
  start.strategy = to_string(experiment.parallel.strategy);
  start.precision = to_string(experiment.parallel.precision);
  start.device = session.device().str();
  start.git_commit = git_commit(experiment.file.parent_path());
  start.host = host_name();
  start.version = WMTP_VERSION;
  start.parent_run = parent_run;
  start.params = flat_values(experiment);
  for (const auto& [part, plugin] : identity.plugins())
    start.plugins.push_back({part, plugin->name, plugin->version, plugin->sha256, plugin->path.string()});
  return start;
}

int64_t bytes_in(const std::filesystem::path& folder) {
  int64_t bytes = 0;
  std::error_code gone;
  for (std::filesystem::directory_iterator file(folder, gone), end; file != end; file.increment(gone))
    bytes += int64_t(file->file_size(gone));
  return bytes;
}

/// Tells the launcher which row to close should this rank die.
void announce_run(int64_t run_id) {
  if (const char* file = std::getenv(run_id_file_variable)) std::ofstream(file) << run_id << "\n";
}

}  // namespace

Recorder::Recorder(Session& session, const Experiment& experiment, const Identity& identity, int64_t parent_run)
    : session_(session), experiment_(experiment) {
  if (session.is_rank0()) {
    log_ = std::make_unique<RunLog>(session.job().database, run_start(session, experiment, identity, parent_run));
    lock_ = std::make_unique<RunLock>(log_->run_folder());
    announce_run(log_->run_id());
  }
  run_folder_ = session.peers().publish("opening the log", log_ ? log_->run_folder().string() : "");
  session.channels().record().set_folder(run_folder_);
}

Recorder::~Recorder() = default;

void Recorder::start_training(int64_t first_step, int64_t num_steps) {
  if (log_) progress_ = std::make_unique<Progress>(experiment_.name, first_step, num_steps, !session_.job().quiet);
}

void Recorder::say(const std::string& text) {
  if (!log_ || session_.job().quiet) return;
  if (progress_)
    progress_->say(text);
  else
    std::cerr << experiment_.name << ": " << text << "\n";
}

void Recorder::step(const StepReport& report) {
  if (!log_) return;
  if (report.step % experiment_.log.every_steps == 0 || report.step == 1) log_->metrics(report.step, report.metrics);
  if (progress_) progress_->step(report);
}

void Recorder::validation(int64_t step, const std::map<std::string, double>& metrics) {
  if (!log_ || metrics.empty()) return;
  log_->metrics(step, metrics);
  if (progress_) progress_->validation(step, metrics.at("valid/loss"));
}

void Recorder::saved(const SaveOutcome& outcome) {
  if (!log_) return;
  if (!outcome.failure.empty()) {
    event("warning", "checkpoint_failed", outcome.step, "checkpoint not written: " + outcome.failure);
    return;
  }
  log_->checkpoint(outcome.step, outcome.folder, bytes_in(outcome.folder), "kept");
  for (const auto& gone : outcome.deleted) log_->checkpoint(step_of_name(gone.filename().string()), gone, 0, "deleted");
  for (const auto& [kind, message] : outcome.warnings) event("warning", kind, outcome.step, message);
  log_->metrics(outcome.step, {{"perf/checkpoint_stall_seconds", outcome.stall_seconds},
                               {"perf/checkpoint_seconds", outcome.seconds}});
}

void Recorder::event(const std::string& level, const std::string& kind, int64_t step, const std::string& message) {
  if (!log_) return;
  log_->event(session_.rank(), level, kind, step, message);
  if (level == "warning") say(message);  // an error is told where the rank ends
}

void Recorder::memory(int64_t step) {
  const MemoryUsage usage = memory_usage();
  std::vector<double> mine;
  for (const int64_t bytes : usage.peak) mine.push_back(double(bytes));
  for (const int64_t bytes : {usage.peak_total, usage.largest_block, peak_resident_bytes()})
    mine.push_back(double(bytes));
  const at::Tensor all = session_.channels().all(at::tensor(mine, at::kDouble), "reporting memory").contiguous();
  if (!log_) return;
  std::vector<MemoryRecord> records;
  for (int rank = 0; rank < session_.size(); ++rank) {
    const double* bytes = all[rank].const_data_ptr<double>();
    for (int i = 0; i < num_memory_categories; ++i)
      records.push_back({rank, step, "peak", to_string(MemoryCategory(i)), int64_t(bytes[i])});
    const char* others[] = {"allocated", "largest_block", "resident"};
    for (int i = 0; i < 3; ++i)
      records.push_back({rank, step, "peak", others[i], int64_t(bytes[num_memory_categories + i])});
  }
  log_->memory(records);
}

void Recorder::end(ExitStatus status) {
  if (!log_) return;
  progress_.reset();
  const int64_t id = log_->run_id();
  log_->end(status);
  if (log_->incomplete())
    std::cerr << experiment_.name << ": warning: the log of run " << id
              << " is incomplete; see the .spool file beside it\n";
  if (session_.job().quiet || (status != ExitStatus::done && status != ExitStatus::interrupted)) return;
  run_summary(std::cout, LogReader(session_.job().database), id);
  std::cout.flush();
}

}  // namespace wmtp
