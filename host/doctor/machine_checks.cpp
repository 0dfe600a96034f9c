#include "doctor/machine_checks.hpp"

#include <sqlite3.h>
#include <sys/sysinfo.h>

#include "base/json.hpp"
#include "base/machine.hpp"
#include "base/text.hpp"
#include "evaluate/sandbox.hpp"
#include "job/engine_process.hpp"
#include "log/log_reader.hpp"
#include "log/open_log.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr int64_t low_disk_space = int64_t{2} << 30;

/// The finding filled in by `check`, or the error that it throws.
template <class Check>
MachineCheck found(const std::string& what, Check check) {
  MachineCheck finding{what};
  try {
    check(finding);
  } catch (const Error& error) {
    finding.state = MachineCheck::State::bad;
    finding.text = error.what();
    finding.status = error.status();
  }
  return finding;
}

void machine(MachineCheck& finding) {
  struct sysinfo memory {};
  sysinfo(&memory);
  const int usable = usable_cores(), online = get_nprocs();
  finding.text = counted(usable, "core") +
                 (usable < online ? " of " + std::to_string(online) + " (this process may use no more)" : "") + ", " +
                 human_bytes(int64_t(memory.totalram) * memory.mem_unit) + " of memory, " +
                 human_bytes(int64_t(memory.freeram + memory.bufferram) * memory.mem_unit) + " free";
}

/// Loads the engine, which is also a rank's first action.
std::vector<MachineCheck> engine() {
  Json about;
  std::vector<MachineCheck> findings{found("engine", [&](MachineCheck& finding) {
    about = engine_info();
    finding.text = "LibTorch " + about["libtorch"].get<std::string>() + ", " + about["cpu"].get<std::string>() +
                   ", kernels for " + about["kernels"].get<std::string>() + ", bf16 products " +
                   about["bf16"].get<std::string>();
  })};
  if (!about.is_null()) findings.push_back({"CUDA", MachineCheck::State::good, about["cuda"].get<std::string>()});
  return findings;
}

void plugins(const std::vector<fs::path>& folders, MachineCheck& finding) {
  int good = 0, refused = 0;
  for (const Catalog::Listed& plugin : Catalog(folders).list()) {
    good += plugin.problem.empty();
    refused += !plugin.problem.empty();
    if (!plugin.problem.empty() && refused == 1) finding.text = plugin.problem;
  }
  if (refused > 0) {
    finding.state = MachineCheck::State::warning;
    finding.text = std::to_string(refused) + " of " + std::to_string(good + refused) +
                   " plugins are refused; first: " + finding.text;
  } else if (good == 0) {
    throw Error(ExitStatus::plugin, "none found; build them with `make build`, or name a folder with --plugin-dir");
  } else {
    finding.text = counted(int64_t(good), "plugin") + ", all compatible with this build";
  }
}

/// Opens the log like a run does, including a test write. Does not create one.
void run_log(const fs::path& database, MachineCheck& finding) {
  if (!fs::exists(database)) {
    finding.text =
        database.string() + " does not exist yet; the first run creates it, by SQLite " + sqlite3_libversion();
    return;
  }
  open_log_for_writing(database, std::chrono::seconds(2));
  const Table counts = LogReader(database).query(
      "SELECT count(*), coalesce(sum(status = 'running'), 0), coalesce(sum(status = 'lost'), 0) FROM v_runs", {}, 1);
  const auto count = [&](size_t column) { return with_thousands(counts.rows.at(0).at(column).get<int64_t>()); };
  finding.text = database.string() + ": " + counted(counts.rows.at(0).at(0).get<int64_t>(), "run") + ", " + count(1) +
                 " running, " + count(2) + " lost";
}

void disk_space(const fs::path& database, MachineCheck& finding) {
  fs::path folder = fs::absolute(database).parent_path();
  while (!fs::exists(folder)) folder = folder.parent_path();
  const auto free = int64_t(fs::space(folder).available);
  finding.text = human_bytes(free) + " free in " + folder.string();
  if (free >= low_disk_space) return;
  finding.state = MachineCheck::State::warning;
  finding.text += "; a checkpoint takes 12 bytes per trained parameter, see `wmtp-host plan`";
}

}  // namespace

std::vector<MachineCheck> check_cuda_device() {
  std::vector<MachineCheck> findings;
  for (const DeviceCheck& check : check_device_with_engine())
    findings.push_back({check.what, check.good ? MachineCheck::State::good : MachineCheck::State::bad, check.text,
                        check.good ? ExitStatus::done : ExitStatus::bug});
  return findings;
}

std::vector<MachineCheck> check_machine(const std::vector<fs::path>& plugin_folders, const fs::path& database) {
  std::vector<MachineCheck> findings{found("machine", machine)};
  for (MachineCheck& finding : engine()) findings.push_back(std::move(finding));
  if (findings.back().state != MachineCheck::State::bad)  // the engine describes plugins
    findings.push_back(found("plugins", [&](MachineCheck& finding) { plugins(plugin_folders, finding); }));
  findings.push_back(found("run log", [&](MachineCheck& finding) { run_log(database, finding); }));
  findings.push_back(found("disk", [&](MachineCheck& finding) { disk_space(database, finding); }));
  findings.push_back(found("eval", [](MachineCheck& finding) {
    Sandbox("", {}).check_works();
    finding.text = "programs under test run in the sandbox";
  }));
  return findings;
}

}  // namespace wmtp
