#include "process/process_pool.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <initializer_list>
#include <list>

#include "base/error.hpp"
#include "base/files.hpp"
#include "process/child_process.hpp"
#include "process/line_forwarder.hpp"
#include "process/signal_stream.hpp"

namespace wmtp {
namespace {

struct Running {
  Running(const PooledProcess& pooled, const ChildRequest& request, LineSink& out, LineSink& err)
      : number(pooled.number),
        process(request),
        sources{LineSource(process.stdout_pipe(), pooled.prefix, out),
                LineSource(process.stderr_pipe(), pooled.prefix, err)} {}
  size_t number;
  ChildProcess process;
  LineSource sources[2];
};

class Pool {
 public:
  Pool(const ProcessPool& queue, LineSink& out, LineSink& err) : queue_(queue), out_(out), err_(err) {}

  bool run() {
    for (start_more(); !running_.empty(); start_more()) {
      if (!child_ended_) wait_for_something();
      take_signals();
      child_ended_ = false;
      reap();
    }
    return is_stopped_;
  }

 private:
  void start_more() {
    while (!is_stopped_ && running_.size() < queue_.jobs) {
      make_room();  // `next` may print
      if (is_stopped_) return;
      const std::optional<PooledProcess> process = queue_.next();
      if (!process) return;
      start(*process);
    }
  }

  void start(const PooledProcess& process) {
    ChildRequest request;
    request.program = own_program();
    request.arguments = process.arguments;
    std::map<std::string, std::string> variables = own_environment();
    for (const auto& [name, value] : process.environment) variables[name] = value;
    request.environment = environment_entries(variables);
    request.inherit_stdout = queue_.jobs == 1 && out_.terminal();
    request.inherit_stderr = queue_.jobs == 1 && err_.terminal();
    request.signal_mask = signals_.previous_mask();
    running_.emplace_back(process, request, out_, err_);
  }

  void wait_for_something() {
    std::vector<LineSource*> sources;
    for (Running& one : running_)
      for (LineSource& source : one.sources) sources.push_back(&source);
    forward_some(signals_.fd(), out_, err_, sources, -1);
  }

  void take_signals() {
    while (const auto signal = signals_.next())
      if (signal->number == SIGCHLD)
        child_ended_ = true;
      else
        forward(*signal);
  }

  /// Waits until the reader of stderr has read what is to be written, before this process itself prints. A request to
  /// stop ends the wait, so that the processes learn of it; a reader who does not read then is given up.
  void make_room() {
    while (!err_.has_room() && !is_stopped_) {
      std::array<pollfd, 2> wanted{{{signals_.fd(), POLLIN, 0}, {err_.fd(), POLLOUT, 0}}};
      if (poll(wanted.data(), wanted.size(), -1) <= 0) continue;
      if (wanted[1].revents) err_.write_some();
      take_signals();
    }
    if (err_.has_room()) return;
    pollfd reader{err_.fd(), POLLOUT, 0};
    if (poll(&reader, 1, patience_with_reader_ms) == 1) return;
    err_.give_up();
    const FileDescriptor nobody(open("/dev/null", O_WRONLY | O_CLOEXEC));
    dup2(nobody.get(), STDERR_FILENO);
  }

  void forward(const ReceivedSignal& signal) {
    is_stopped_ = true;
    const StopRequests::Kind kind = requests_.take(signal);
    if (kind == StopRequests::Kind::same) return;
    forwarded_signal_ = forwarded(signal.number);
    for (Running& one : running_)
      if (kind == StopRequests::Kind::first)
        one.process.send(forwarded_signal_);
      else
        one.process.repeat_stop(forwarded_signal_);
  }

  void reap() {
    for (auto one = running_.begin(); one != running_.end();) {
      const auto status = one->process.wait_status();
      if (!status) {
        ++one;
        continue;
      }
      for (LineSource& source : one->sources) source.drain();
      make_room();  // `ended` may print
      is_stopped_ |= !queue_.ended(one->number, exit_code_of(*status));
      one = running_.erase(one);
    }
  }

  int exit_code_of(int status) const {
    if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
    return int(WTERMSIG(status) == forwarded_signal_ ? ExitStatus::interrupted : ExitStatus::peer);
  }

  const ProcessPool& queue_;
  LineSink& out_;
  LineSink& err_;
  SignalStream signals_;
  StopRequests requests_;
  std::list<Running> running_;
  bool is_stopped_ = false;
  bool child_ended_ = false;  ///< one that reap() has not seen
  int forwarded_signal_ = 0;
};

}  // namespace

bool run_pool(const ProcessPool& queue) {
  const IgnoreSigpipe ignored;
  LineSink out(STDOUT_FILENO), err(STDERR_FILENO);
  const bool is_stopped = Pool(queue, out, err).run();
  const int longest_ms = is_stopped ? patience_with_reader_ms : -1;
  out.flush(longest_ms);
  err.flush(longest_ms);
  return is_stopped;
}

}  // namespace wmtp
