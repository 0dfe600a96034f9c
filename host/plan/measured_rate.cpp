#include "plan/measured_rate.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <future>
#include <vector>

#include "base/error.hpp"
#include "base/time_use.hpp"
#include "comm/network.hpp"
#include "experiment/load/load.hpp"
#include "io/scratch_folder.hpp"
#include "job/job_request.hpp"
#include "log/log_reader.hpp"
#include "log/run_folders.hpp"
#include "plan/experiment_plan.hpp"
#include "report/runs.hpp"

namespace wmtp {
namespace {

constexpr double most_of_a_step = 0.9;  // that can be waits; their mean may exceed the median step

[[noreturn]] void refuse(const RunInfo& run, const std::string& why) {
  throw Error(ExitStatus::usage, "--like: run " + std::to_string(run.id) + " (" + run.name + ") " + why);
}

/// Median.
double seconds_of_step(const LogReader& log, const RunInfo& run) {
  std::vector<double> seconds;
  for (const Row& row :
       log.query("SELECT value FROM metrics WHERE run_id = ?1 AND name = 'perf/step_seconds' ORDER BY step", {run.id})
           .rows)
    seconds.push_back(row[0]);
  const auto all = int64_t(seconds.size());
  if (all <= uncounted_steps)
    refuse(run, "took " + std::to_string(all) + " steps, of which the first " + std::to_string(uncounted_steps) +
                    " do not count, wanted at least " + std::to_string(uncounted_steps + 1));
  std::sort(seconds.begin() + uncounted_steps, seconds.end());
  const size_t lower = size_t(uncounted_steps + all - 1) / 2, upper = size_t(uncounted_steps + all) / 2;
  return (seconds[lower] + seconds[upper]) / 2;
}

/// What a rank waits for others in a step; 0 in logs of versions that do not record it.
double seconds_of_waits(const LogReader& log, const RunInfo& run) {
  const Table waited = log.query(
      "SELECT (max(value) - min(value)) / (max(step) - min(step)) FROM metrics WHERE run_id = ?1 AND "
      "name = 'time/communication' HAVING max(step) > min(step)",
      {run.id});
  return waited.rows.empty() ? 0 : waited.rows[0][0].get<double>();
}

RankWork work_of_step(const std::string& experiment_toml, const Catalog& catalog,
                      const std::filesystem::path& database) {
  const ScratchFolder folder;
  const auto file = folder.path() / "experiment.toml";
  std::ofstream(file) << experiment_toml;
  const Experiment as_logged = load_experiment(load_request(catalog, file, {}));
  const Experiment experiment =
      with_host_shard_groups(as_logged, as_logged.parallel.processes, as_logged.parallel.processes);
  StepPlanner planner(catalog, database);
  return plan_experiment(experiment, catalog, cache_folder_path(database), planner.steps_of(experiment))
      .variants.front()
      .step.work;
}

struct Connection {
  Socket sender, receiver;
};

/// To this process.
Connection loopback_connection() {
  constexpr std::chrono::milliseconds limit{1000};
  const Socket port = reserved_loopback_port(0);
  if (listen(port.fd(), 1) != 0) throw std::runtime_error(std::strerror(errno));
  std::string cause;
  Connection connection;
  connection.sender = connected_to("127.0.0.1", port.port(), limit, cause);
  if (connection.sender.fd() < 0) throw std::runtime_error(cause);
  pollfd arriving{port.fd(), POLLIN, 0};
  poll(&arriving, 1, int(limit.count()));
  connection.receiver = Socket(accept4(port.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection.receiver.fd() < 0) throw std::runtime_error(std::strerror(errno));
  return connection;
}

/// Processor seconds per byte of one transfer between buffers that are larger than caches, as gradients are.
double transfer(const Connection& connection) {
  constexpr size_t piece = 64 << 10;  // TCP wakes a receiver for about as much at a time
  constexpr size_t all = 512 * piece;
  const std::string bytes(all, 'x');
  std::string received(all, 'x');
  received.clear();  // its memory stays, already mapped
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const double before = processor_seconds();
  auto sent = std::async(std::launch::async, [&] { connection.sender.send_all(bytes, end); });
  while (received.size() < all) connection.receiver.receive(received, std::min(piece, all - received.size()), end);
  sent.get();
  return (processor_seconds() - before) / double(all);
}

}  // namespace

double measured_socket_seconds() {
  try {
    const Connection connection = loopback_connection();
    std::array seconds{transfer(connection), transfer(connection), transfer(connection)};
    std::sort(seconds.begin(), seconds.end());
    return seconds[1];
  } catch (const std::exception& error) {
    throw Error(ExitStatus::peer,
                std::string("--network: cannot measure a connection on the loopback: ") + error.what());
  }
}

MeasuredRate measured_rate(const std::filesystem::path& database, const std::string& run, Precision precision,
                           const Catalog& catalog) {
  const LogReader log(database);
  const RunInfo found = log.run(log.resolve_run(run));
  const Row row = log.query("SELECT device, precision, world_size FROM runs WHERE id = ?1", {found.id}).rows.at(0);
  if (found.status != "finished") refuse(found, "is " + found.status + ", wanted a finished one");
  if (row[0] != "cpu")
    refuse(found, "used " + row[0].get<std::string>() + ", wanted one on the CPU; for GPUs, use --on");
  if (row[1] != to_string(precision))
    refuse(found,
           "trained in " + row[1].get<std::string>() + ", wanted " + to_string(precision) + " as in this experiment");
  const RankWork work = work_of_step(runnable_experiment(log, found.id), catalog, database);
  const double seconds = seconds_of_step(log, found);
  const double waits = work.traffic.bus > 0 ? std::min(seconds_of_waits(log, found), most_of_a_step * seconds) : 0;
  return {found.id, found.name, row[2], work.operations / (seconds - waits), waits > 0 ? waits / work.traffic.bus : 0};
}

}  // namespace wmtp
