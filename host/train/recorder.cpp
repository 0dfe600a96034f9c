#include "train/recorder.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <iostream>
#include <optional>
#include <utility>

#include "base/environment.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/status_line.hpp"
#include "base/text.hpp"
#include "base/time_use.hpp"
#include "comm/torch/cuda_backend.hpp"
#include "experiment/canonical.hpp"
#include "export/tensorboard.hpp"
#include "io/durable_file.hpp"
#include "job/git_commit.hpp"
#include "job/time_left.hpp"
#include "log/log_reader.hpp"
#include "memory/allocator.hpp"
#include "memory/caught_error.hpp"
#include "report/summary.hpp"

namespace wmtp {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

RunStart run_start(Session& session, const Experiment& experiment, const RunIdentity& identity, int64_t parent_run) {
  RunStart start;
  start.name = experiment.name;
  start.command = session.job().command;
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

constexpr const char *peak_phase = "peak", *live_phase = "live", *process_phase = "process";  // as in db/README.md

Json by_category(const std::array<int64_t, num_memory_categories>& bytes) {
  Json categories;
  for (int i = 0; i < num_memory_categories; ++i) categories[to_string(MemoryCategory(i))] = bytes[size_t(i)];
  return categories;
}

/// This rank's bytes: {phase: {category: bytes}}.
Json memory_report(const at::Device& device) {
  const MemoryUsage usage = memory_usage();
  Json report;
  for (const auto& [phase, snapshot] : usage.phases) {
    report[phase] = by_category(snapshot.bytes);
    report[phase]["allocated"] = snapshot.total;
  }
  for (const auto& [phase, peak] : usage.device_phases) {
    report[phase]["reserved"] = peak.reserved;
    report[phase]["device_used"] = peak.used;
  }
  report[live_phase] = by_category(usage.live);
  report[peak_phase] = by_category(usage.peak);
  report[peak_phase]["allocated"] = usage.peak_total;
  report[peak_phase]["largest_block"] = usage.largest_block;
  report[peak_phase]["resident"] = peak_resident_bytes();
  report[process_phase]["resident"] = resident_bytes_without_tensors();
  if (device.is_cuda()) {
    const CudaDevice now = cuda_backend().current_device();
    report[peak_phase]["reserved"] = now.reserved_bytes;
    report[peak_phase]["device_used"] = now.total_bytes - now.free_bytes;
  }
  return report;
}

/// The launcher closes this row if this rank dies before announce_end().
void announce_run(const RunLog& log) {
  if (const std::string file = environment_value(run_id_file_variable); !file.empty())
    std::ofstream(file) << log.run_id() << " " << log.run_key() << " " << log.run_folder().string() << "\n";
}

/// Tells the launcher that this rank has closed the row, at least in the spool, if another program locks the log.
void announce_end(ExitStatus status) {
  if (const std::string file = environment_value(run_id_file_variable); !file.empty())
    std::ofstream(file, std::ios::app) << int(status) << "\n";
}

}  // namespace

/// Rank 0's output to stderr during training: on a terminal a status line that is redrawn, elsewhere plain lines, at
/// most one per second.
class Recorder::Progress {
 public:
  Progress(std::string name, const TimeLeft::Plan& plan, bool shown)
      : name_(std::move(name)), plan_(plan), shown_(shown), time_left_(plan) {}
  ~Progress() {
    if (shown_) end_status_line();
  }

  void step(const StepReport& report) {
    if (!shown_) return;
    time_left_.step(report.step, report.metrics.at("perf/step_seconds"));
    const auto now = std::chrono::steady_clock::now();
    const bool ends = report.step == plan_.num_steps || report.step == plan_.first_step;
    if (!ends && now - last_line_ < (can_draw_status() ? redraw_interval : line_interval)) return;
    last_line_ = now;
    const std::string loss = report.measured_loss ? printed("loss %.4f", report.loss) : "no target";
    show_status(printed("%s: step %lld/%lld  %s  %s tokens/s  memory %s  %s left", name_.c_str(),
                        static_cast<long long>(report.step), static_cast<long long>(plan_.num_steps), loss.c_str(),
                        with_thousands(int64_t(report.metrics.at("perf/tokens_per_second"))).c_str(),
                        human_bytes(resident_bytes()).c_str(),
                        human_seconds(time_left_.seconds_after(report.step)).c_str()));
  }

  void validation(int64_t step, double loss, double seconds) {
    time_left_.validation(seconds);
    if (shown_)
      log_info(printed("%s: step %lld: validation loss %.4f", name_.c_str(), static_cast<long long>(step), loss));
  }

  void save(double seconds) { time_left_.save(seconds); }

 private:
  static constexpr std::chrono::milliseconds line_interval{1000}, redraw_interval{100};

  std::string name_;
  TimeLeft::Plan plan_;
  bool shown_;
  TimeLeft time_left_;
  std::chrono::steady_clock::time_point last_line_;
};

Recorder::Recorder(Session& session, const Experiment& experiment, const RunIdentity& identity, int64_t parent_run)
    : session_(session), experiment_(experiment) {
  reset_memory_peak();  // this process may already have run a stage
  reset_time_used();
  if (session.is_rank0()) {
    const RunStart start = run_start(session, experiment, identity, parent_run);
    SinkMaker sink;
    if (!experiment.log.tensorboard.empty())
      sink = [&](int64_t id) { return tensorboard_sink(experiment.log.tensorboard, id, start); };
    log_ = std::make_unique<RunLog>(session.job().database, start, sink);
  }
  try {
    begin();
  } catch (...) {
    const Error error = caught_error();
    failed(error);
    throw error;
  }
}

void Recorder::begin() {
  if (log_) {
    lock_ = std::make_unique<RunLock>(log_->run_folder());
    announce_run(*log_);
    for (const std::string& warning : missing_trackers(experiment_.log)) log_warning(warning);
    trackers_ = std::make_unique<LiveTrackers>(experiment_.log, session_.job().database, log_->run_id());
  }
  run_folder_ = session_.peers().broadcast("opening the log", log_ ? log_->run_folder().string() : "");
  make_writer_folder();
  session_.channels().peers().record().set_folder(run_folder_);
}

void Recorder::failed(const Error& error) {
  event("error", "failed", 0, error.what());
  end(error.status());
}

/// A folder of another log would be mixed up with this run's. Refused on every rank.
void Recorder::make_writer_folder() {
  if (session_.writers().is_shared_folder()) return;
  const auto make = [&] {
    if (!session_.is_writer() || session_.is_rank0()) return;
    if (is_there(run_folder_))
      throw Error(ExitStatus::storage,
                  run_folder_.string() + " on this host belongs to another log than rank 0's; move it away");
    make_folder_durably(run_folder_);
  };
  session_.peers().rethrow_on_all_ranks("making the run's folder", failure_of(make));
}

Recorder::~Recorder() = default;

void Recorder::restarted(const Restart& restart, int64_t step) {
  if (!log_ || restart.number == 0) return;
  using namespace std::chrono;
  const int64_t now = duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
  int64_t since = restart.lost_since_ns;  // what was lost before the previous restart is in the log already
  try {
    LogReader(log_->database())
        .each_row(
            "SELECT max(time_ns) FROM metrics JOIN v_lineage ON segment = metrics.run_id "
            "WHERE v_lineage.run_id = ?1 AND name = 'perf/lost_seconds'",
            {log_->run_id()}, [&](const Statement& row) { since = std::max(since, row.integer(0)); });
  } catch (const Error&) {  // another program may lock the log: some seconds then count twice
  }
  const double seconds = std::max(0.0, double(now - since) / 1e9);
  log_->metrics(step, {{"perf/lost_seconds", seconds}});
  log_->event(
      session_.rank(), "warning", "restarted", step,
      printed("restart %lld after step %lld, because %s: %.1f s are lost", static_cast<long long>(restart.number),
              static_cast<long long>(step), restart.reason.c_str(), seconds));
}

void Recorder::start_training(const TimeLeft::Plan& plan, int64_t sequences) {
  if (log_ && !session_.job().quiet) {
    const int64_t length = experiment_.train.sequence_length;
    info(counted(plan.num_steps, "step") + " of " + counted(sequences, "sequence") + " x " + std::to_string(length) +
         " tokens = " + with_thousands(sequences * length));
  }
  first_step_ = plan.first_step;
  last_step_ = plan.num_steps;
  if (log_) progress_ = std::make_unique<Progress>(experiment_.name, plan, !session_.job().quiet);
}

void Recorder::info(const std::string& text) {
  if (log_) log_info(experiment_.name + ": " + text);
}

void Recorder::step(const StepReport& report) {
  if (!log_) return;
  const TimeScope time("log");
  if (report.step % experiment_.log.every_steps == 0 || report.step == first_step_ || report.step == last_step_) {
    log_->metrics(report.step, report.metrics);
    training_.add(report.step, report.loss);
    if (session_.device().is_cuda())
      if (const auto share = cuda_backend().utilization())
        log_->metrics(report.step, {{"perf/gpu_utilization", *share}});
  }
  if (progress_) progress_->step(report);
}

void Recorder::validation(int64_t step, const std::map<std::string, double>& metrics, double seconds) {
  if (!log_ || metrics.empty()) return;
  log_->metrics(step, metrics);
  validation_.add(step, metrics.at("valid/loss"));
  if (progress_) progress_->validation(step, metrics.at("valid/loss"), seconds);
}

bool Recorder::validated(int64_t step) const {
  std::string found;
  if (log_ && !LogReader(log_->database())
                   .query("SELECT 1 FROM v_curves WHERE run_id = ?1 AND name = 'valid/loss' AND step = ?2",
                          {log_->run_id(), step})
                   .rows.empty())
    found = "yes";
  return !session_.peers().broadcast("looking for a validation in the log", found).empty();
}

void Recorder::samples(int64_t step, const std::vector<TokenSample>& samples, const Tokenizer* tokenizer) {
  if (!log_ || samples.empty()) return;
  std::vector<SampleRecord> records;
  std::vector<SampleAlignment> alignments;
  for (const TokenSample& one : samples) {
    records.push_back({one.sequence, one.position, one.head, one.token, token_text(tokenizer, one.token), one.weight,
                       one.loss, one.reference_loss});
    if (one.cosine) alignments.push_back({one.sequence, one.position, one.head, *one.product, *one.cosine});
  }
  log_->samples(step, std::move(records));
  if (!alignments.empty()) log_->sample_alignments(step, std::move(alignments));
}

void Recorder::generations(int64_t step, std::vector<Generation> texts) {
  if (log_ && !texts.empty()) log_->generations(step, std::move(texts));
}

void Recorder::saved(const SaveOutcome& outcome) {
  if (!log_) return;
  if (outcome.failure.empty())
    log_->checkpoint(outcome.step, outcome.folder, bytes_below(outcome.folder), "kept");
  else
    event("warning", "checkpoint_failed", outcome.step, "checkpoint not written: " + outcome.failure);
  const auto is_gone = [&](const std::filesystem::path& folder, const char* state) {
    log_->checkpoint(parse_checkpoint_step(folder.filename().string()), folder, 0, state);
  };
  for (const std::filesystem::path& folder : outcome.deleted) is_gone(folder, "deleted");
  for (const auto& [folder, reason] : outcome.damaged) {
    is_gone(folder, "damaged");
    event("warning", "checkpoint_damaged", outcome.step, folder.string() + ": " + reason);
  }
  for (const auto& [kind, message] : outcome.warnings) event("warning", kind, outcome.step, message);
  if (!outcome.failure.empty()) return;
  log_->metrics(outcome.step, {{"perf/checkpoint_stall_seconds", outcome.stall_seconds},
                               {"perf/checkpoint_seconds", outcome.seconds}});
  if (progress_) progress_->save(outcome.seconds);
}

void Recorder::event(const std::string& level, const std::string& kind, int64_t step, const std::string& message) {
  if (!log_) return;
  log_->event(session_.rank(), level, kind, step, message);
  if (level == "warning") info(message);  // an error is printed when the rank ends
}

void Recorder::resources(int64_t step) {
  const std::string mine = Json{{"memory", memory_report(session_.device())}, {"seconds", time_used()}}.dump();
  const auto reports = session_.peers().gather("reporting memory and time", mine);
  if (!log_) return;
  std::vector<MemoryRecord> records;
  std::map<std::string, double> seconds;
  std::vector<RankTime> times;
  for (int rank = 0; rank < session_.size(); ++rank) {
    const Json report = Json::parse(reports[size_t(rank)]);
    for (const auto& [phase, used] : report["seconds"].items()) {
      seconds["time/" + phase] += used.get<double>() / session_.size();
      times.push_back({rank, step, phase, used.get<double>()});
    }
    for (const auto& [phase, bytes] : report["memory"].items()) {
      if (bytes.contains("allocated") && phase != peak_phase) {
        const int64_t held = bytes["allocated"].get<int64_t>() + bytes.value("reserved", int64_t(0));
        if (std::exchange(logged_[{rank, phase}], held) == held) continue;
      }
      for (const auto& [category, count] : bytes.items())
        records.push_back({rank, step, phase, category, count.get<int64_t>()});
    }
  }
  log_->memory(records);
  log_->metrics(step, seconds);
  if (session_.size() > 1) log_->rank_times(std::move(times));
}

void Recorder::Loss::add(int64_t step, double value) {
  if (!is_there) *this = {true, step, step, value, value};
  last_step = step;
  last = value;
}

std::string Recorder::summary_without_log(ExitStatus status) const {
  const std::string id = std::to_string(log_->run_id());
  std::string text =
      "run " + id + " (" + experiment_.name + ") " + (status == ExitStatus::done ? "finished" : "interrupted");
  for (const auto& [title, loss] : {std::pair(": validation", &validation_), {": training", &training_}})
    if (loss->is_there) {
      text += title + (" loss " + loss_change_text(loss->first, loss->last)) + " (steps " +
              std::to_string(loss->first_step) + " to " + std::to_string(loss->last_step) + ")";
      break;
    }
  if (row_is_gone()) return text + "\n";
  return text + "\n  next             " +
         (status == ExitStatus::interrupted ? "repeat the command with --resume to continue; " : "") +
         "wmtp-host runs show " + id + ", when no other program locks the log\n";
}

bool Recorder::row_is_gone() const {
  return LogReader(log_->database()).query("SELECT 1 FROM runs WHERE id = ?1", {log_->run_id()}, 1).rows.empty();
}

void Recorder::finish_trackers() {
  if (!trackers_) return;
  for (const LiveTrackers::Outcome& outcome : trackers_->finish()) {
    if (outcome.failed)
      log_warning(experiment_.name + ": not all of the run is in " + outcome.name + ": " + outcome.message +
                  "; send the rest with `wmtp-host export " + std::to_string(log_->run_id()) + " --to " + outcome.name +
                  (outcome.name == "mlflow" ? " --push " + experiment_.log.mlflow : "") + "`");
    else if (!session_.job().quiet)
      info(outcome.name + ": " + outcome.message);
  }
}

void Recorder::end(ExitStatus status) {
  if (!log_) return;
  progress_.reset();
  log_->end(status);
  if (lock_) announce_end(status);  // else the run was not announced
  try {
    finish_trackers();
    print_end(status);
  } catch (const std::exception& error) {  // the log, which the run no longer needs, cannot be read
    log_warning(experiment_.name + ": " + error.what());
  }
}

void Recorder::print_end(ExitStatus status) {
  const int64_t id = log_->run_id();
  if (log_->incomplete())
    log_warning(experiment_.name + ": the log of run " + std::to_string(id) + " is incomplete; " +
                (row_is_gone()
                     ? "its row was deleted while it ran, so that the rows in the .spool file next to the log are "
                       "not added to it"
                     : "the next command that opens the log adds the rows in the .spool file next to it"));
  if (session_.job().quiet || (status != ExitStatus::done && status != ExitStatus::interrupted)) return;
  if (log_->incomplete())
    std::cout << summary_without_log(status);
  else
    run_summary(std::cout, LogReader(log_->database()), id);
  std::cout.flush();
}

}  // namespace wmtp
