#include "launch/rank_launcher.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <utility>

#include "base/secret.hpp"
#include "base/stop_signals.hpp"
#include "base/text.hpp"
#include "comm/network.hpp"
#include "comm/rank_environment.hpp"
#include "job/engine_process.hpp"
#include "process/child_process.hpp"
#include "process/line_forwarder.hpp"
#include "process/process_stat.hpp"
#include "process/signal_stream.hpp"

namespace wmtp {
namespace {

using Clock = std::chrono::steady_clock;

/// How often the ranks' states are looked up: a stopped process tells nobody.
constexpr std::chrono::seconds state_interval{2};

Clock::time_point seconds_from_now(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// `local`: number of the rank among those of this host.
std::vector<std::string> rank_variables(const LaunchRequest& request, int local, int port, const std::string& token) {
  std::map<std::string, std::string> variables = own_environment();
  const int num_ranks = request.share ? request.share->world_size : request.num_ranks;
  for (const auto& [name, value] : request.environment) variables[name] = value;
  variables["RANK"] = std::to_string(request.first_rank() + local);
  variables["LOCAL_RANK"] = std::to_string(local);
  variables["WORLD_SIZE"] = std::to_string(num_ranks);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(request.num_ranks);
  variables["MASTER_ADDR"] = request.share ? request.share->address : "127.0.0.1";
  variables["MASTER_PORT"] = std::to_string(port);
  variables["WMTP_LAUNCHER"] = request.share ? "node" : "1";
  if (!request.share) variables[token_variable] = token;
  return environment_entries(variables);
}

struct Ending {
  ExitStatus status = ExitStatus::done;
  bool by_itself = true;  ///< exited with one of our codes, so it could notify the others
  std::string text;
  bool was_killed_here = false;  ///< or ended after a request of this process to end
};

Ending ending_of(const std::string& name, int wait_status, int forwarded_signal) {
  const std::string text = name + " " + exit_text(wait_status);
  if (WIFSIGNALED(wait_status)) {
    constexpr std::array of_itself{SIGXCPU, SIGABRT, SIGSEGV, SIGBUS};  // a library may use memory that it was refused
    const bool by_itself = std::find(of_itself.begin(), of_itself.end(), WTERMSIG(wait_status)) != of_itself.end();
    if (by_itself && failure_status(wait_status) == ExitStatus::storage)
      return {failure_status(wait_status), false, text};
    // A request to all processes of a job may end a rank that does not handle it yet.
    const bool is_request =
        forwarded_signal != 0 && std::ranges::find(stop_signals, WTERMSIG(wait_status)) != stop_signals.end();
    const auto status = is_request ? ExitStatus::interrupted : ExitStatus::peer;
    return {status, false, text};
  }
  const int code = WEXITSTATUS(wait_status);
  if (code == finished_exit_code) return {};
  switch (ExitStatus(code)) {
    case ExitStatus::done:
      return {ExitStatus::peer, false, text + " before it had finished: something, possibly a plugin, called exit()"};
    case ExitStatus::usage:
    case ExitStatus::plugin:
    case ExitStatus::data:
    case ExitStatus::guard:
    case ExitStatus::peer:
    case ExitStatus::storage:
    case ExitStatus::device_memory:
    case ExitStatus::bug:
    case ExitStatus::interrupted:
      return {ExitStatus(code), true, text};
  }
  if (was_not_loaded(wait_status)) return {failure_status(wait_status), false, text};
  return {ExitStatus::bug, false, text + ", which is not an exit code of wmtp-host"};
}

class Launch {
 public:
  Launch(LaunchRequest request, LineSink& out, LineSink& err) : request_(std::move(request)), out_(out), err_(err) {
    const int port = port_of_rank0();
    token_ = random_token();
    endings_.resize(size_t(request_.num_ranks));
    stopped_.resize(size_t(request_.num_ranks));
    for (int rank = 0; rank < request_.num_ranks; ++rank) start(rank, port);
    request_.start_rank = nullptr;
  }

  LaunchResult run() {
    while (order_.size() < ranks_.size()) {
      wait_for_something();
      while (const auto signal = signals_.next())
        if (signal->number != SIGCHLD) take_signal(*signal);
      reap();
      name_stopped_ranks();
      escalate();
    }
    for (auto& source : sources_) source.drain();
    report_failure();
    return result();
  }

 private:
  int port_of_rank0();
  std::string rank_name(int local) const { return "rank " + std::to_string(request_.first_rank() + local); }
  void start(int local, int port);
  void wait_for_something();
  void take_signal(const ReceivedSignal& signal);
  void reap();
  void note_ending(int rank, Ending ending);
  void report_failure();
  void name_stopped_ranks();
  void escalate();
  bool is_patient() const { return stop_phase_ == StopPhase::endless || stop_phase_ == StopPhase::parting; }
  bool has_deadline() const { return stop_phase_ != StopPhase::endless && stop_phase_ != StopPhase::over; }
  LaunchResult result() const;

  LaunchRequest request_;
  LineSink& out_;
  LineSink& err_;
  Socket held_port_;
  std::string token_;
  SignalStream signals_;
  StopRequests requests_;
  std::vector<ChildProcess> ranks_;
  std::vector<LineSource> sources_;
  std::vector<std::optional<Ending>> endings_;
  std::vector<bool> stopped_;  ///< ranks that have been named as stopped
  Clock::time_point next_look_ = Clock::now() + state_interval;
  std::vector<int> order_;          ///< ranks in the order in which they ended
  std::string unreported_failure_;  ///< how the first rank failed that may leave the cause to another rank
  int forwarded_signal_ = 0;
  bool killed_by_user_ = false;
  enum class StopPhase { endless, parting, grace, terminated, over } stop_phase_ = StopPhase::endless;
  Clock::time_point deadline_;
};

/// A job of one rank needs no rendezvous, and may run without a loopback interface.
int Launch::port_of_rank0() {
  if (request_.share) return request_.port;
  if (request_.num_ranks == 1) return std::max(request_.port, 1);
  held_port_ = reserved_loopback_port(request_.port);
  return held_port_.port();
}

void Launch::start(int local, int port) {
  const bool is_rank0 = request_.first_rank() + local == 0;
  ChildRequest child;
  child.arguments = request_.arguments;
  child.environment = rank_variables(request_, local, port, token_);
  child.inherit_stdout = is_rank0 && out_.terminal();
  child.inherit_stderr = is_rank0 && err_.terminal();
  child.signal_mask = signals_.previous_mask();
  ranks_.push_back(request_.start_rank(child));
  const std::string prefix = is_rank0 ? "" : "[" + rank_name(local) + "] ";
  sources_.emplace_back(ranks_.back().stdout_pipe(), prefix, out_);
  sources_.emplace_back(ranks_.back().stderr_pipe(), prefix, err_);
}

void Launch::wait_for_something() {
  std::vector<LineSource*> sources;
  for (LineSource& source : sources_) sources.push_back(&source);
  const Clock::time_point until = has_deadline() ? std::min(deadline_, next_look_) : next_look_;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  forward_some(signals_.fd(), out_, err_, sources, int(std::max<int64_t>(0, left)));
}

void Launch::take_signal(const ReceivedSignal& signal) {
  const StopRequests::Kind kind = requests_.take(signal);
  const std::string name = signal_name(signal.number);
  if (kind == StopRequests::Kind::first) {
    forwarded_signal_ = forwarded(signal.number);
    err_.line("", name + ": the ranks save and stop; repeat to kill them immediately");
    for (auto& rank : ranks_) rank.send(forwarded_signal_);
  } else if (kind == StopRequests::Kind::again && !killed_by_user_) {
    err_.line("", "second " + name + ": killing the ranks without a new checkpoint");
    killed_by_user_ = true;
    for (auto& rank : ranks_) rank.kill_group();
  }
}

void Launch::reap() {
  for (int rank = 0; rank < request_.num_ranks; ++rank) {
    if (endings_[size_t(rank)]) continue;
    if (const auto status = ranks_[size_t(rank)].wait_status())
      note_ending(rank, ending_of(rank_name(rank), *status, forwarded_signal_));
  }
}

void Launch::note_ending(int rank, Ending ending) {
  // A rank terminated because another one failed may end as if the user had stopped it.
  const bool terminated = stop_phase_ == StopPhase::terminated && forwarded_signal_ == 0;
  if (terminated && ending.status == ExitStatus::interrupted) ending.status = ExitStatus::peer;
  const bool bad = ending.status != ExitStatus::done && ending.status != ExitStatus::interrupted;
  if (bad && is_patient() && !killed_by_user_) {
    stop_phase_ = StopPhase::grace;
    // A rank that reports a lost peer has already waited for it.
    const bool waited = ending.by_itself && ending.status == ExitStatus::peer;
    deadline_ = seconds_from_now(waited ? request_.kill_seconds : request_.grace_seconds);
    if (request_.num_ranks > 1 || !ending.by_itself) unreported_failure_ = ending.text;
    if (!ending.by_itself) report_failure();
  } else if (!bad && stop_phase_ == StopPhase::endless) {
    stop_phase_ = StopPhase::parting;
    deadline_ = seconds_from_now(request_.timeout_seconds);
  }
  ending.was_killed_here = stop_phase_ == StopPhase::terminated || stop_phase_ == StopPhase::over || killed_by_user_;
  endings_[size_t(rank)] = std::move(ending);
  order_.push_back(rank);
}

void Launch::name_stopped_ranks() {
  if (Clock::now() < next_look_) return;
  next_look_ = Clock::now() + state_interval;
  for (int rank = 0; rank < request_.num_ranks; ++rank) {
    if (endings_[size_t(rank)]) continue;
    const pid_t process = ranks_[size_t(rank)].id();
    const auto stat = process_stat(process);
    if (!stat || stat->is_stopped() == stopped_[size_t(rank)]) continue;
    stopped_[size_t(rank)] = stat->is_stopped();
    const std::string id = std::to_string(process);
    err_.line("", rank_name(rank) + (stat->is_stopped() ? " (process " + id +
                                                              ") is stopped, by a signal or a debugger, and the others "
                                                              "wait for it: `kill -CONT " +
                                                              id + "` lets it go on"
                                                        : " goes on"));
  }
}

void Launch::report_failure() {
  if (!unreported_failure_.empty()) err_.line("", std::exchange(unreported_failure_, ""));
}

void Launch::escalate() {
  if (!has_deadline() || Clock::now() < deadline_) return;
  report_failure();
  const bool kill = stop_phase_ == StopPhase::terminated;
  if (stop_phase_ == StopPhase::parting)
    err_.line("", printed("%s ended %g s ago (parallel.timeout_seconds)", rank_name(order_[0]).c_str(),
                          request_.timeout_seconds));
  for (int rank = 0; rank < request_.num_ranks; ++rank) {
    if (endings_[size_t(rank)]) continue;
    auto& child = ranks_[size_t(rank)];
    err_.line("",
              rank_name(rank) + (kill ? " is still running: sending SIGKILL" : " is still running: sending SIGTERM"));
    if (kill) {
      child.kill_group();
    } else {
      child.send(SIGTERM);
    }
  }
  stop_phase_ = kill ? StopPhase::over : StopPhase::terminated;
  deadline_ = seconds_from_now(request_.kill_seconds);
}

LaunchResult Launch::result() const {
  enum class Cause { none, report_of_a_lost_rank, lost_rank, request, fault };
  const auto cause_of = [](const Ending& ending) {
    if (ending.status == ExitStatus::done) return Cause::none;
    if (ending.status == ExitStatus::peer)
      return ending.by_itself || ending.was_killed_here ? Cause::report_of_a_lost_rank : Cause::lost_rank;
    return ending.status == ExitStatus::interrupted ? Cause::request : Cause::fault;
  };
  LaunchResult result;
  Cause strongest = Cause::none;
  for (const int rank : order_) {  // which this process may have noticed in another order than they ended in
    const Ending& ending = *endings_[size_t(rank)];
    if (cause_of(ending) <= strongest) continue;
    strongest = cause_of(ending);
    result.status = ending.status;
    result.reason = ending.text;
  }
  result.stop_requested = forwarded_signal_ != 0 || killed_by_user_;
  if (killed_by_user_ && strongest < Cause::fault) result.status = ExitStatus::interrupted;
  return result;
}

}  // namespace

LaunchResult launch_ranks(LaunchRequest request) {
  const IgnoreSigpipe ignored;
  LineSink out(STDOUT_FILENO), err(STDERR_FILENO);
  LaunchResult result = Launch(std::move(request), out, err).run();
  // Launch has restored the signal actions, so that Ctrl-C ends a launcher whose reader never reads.
  const int longest_ms = result.stop_requested ? patience_with_reader_ms : -1;
  out.flush(longest_ms);
  err.flush(longest_ms);
  return result;
}

}  // namespace wmtp
