// `doctor`: checks everything a run needs by trying it.
#include <sys/sysinfo.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/counted.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "core/job/engine_process.hpp"
#include "core/plugins/catalog.hpp"
#include "core/runlog/log_reader.hpp"
#include "core/runlog/open_log.hpp"
#include "evaluate/sandbox.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t low_disk_space = int64_t{2} << 30;

struct Finding {
  std::string what;
  enum class State { good, warning, bad } state = State::good;
  std::string text = {};
  ExitStatus status = ExitStatus::done;  ///< of the command if the state is bad
};

const char* to_string(Finding::State state) {
  return state == Finding::State::good ? "good" : state == Finding::State::warning ? "warning" : "bad";
}

/// The finding that `check` fills in, or the error that it throws.
template <class Check>
Finding found(const std::string& what, Check check) {
  Finding finding{what};
  try {
    check(finding);
  } catch (const Error& error) {
    finding.state = Finding::State::bad;
    finding.text = error.what();
    finding.status = error.status();
  }
  return finding;
}

void machine(Finding& finding) {
  struct sysinfo memory {};
  sysinfo(&memory);
  finding.text = counted(std::thread::hardware_concurrency(), "core") + ", " +
                 human_bytes(int64_t(memory.totalram) * memory.mem_unit) + " of memory, " +
                 human_bytes(int64_t(memory.freeram + memory.bufferram) * memory.mem_unit) + " free";
}

/// Loads the engine, as a rank does first.
std::vector<Finding> engine() {
  Json about;
  std::vector<Finding> findings{found("engine", [&](Finding& finding) {
    about = Json::parse(about_engine_of_this_build());
    finding.text = "LibTorch " + about["libtorch"].get<std::string>() + ", " + about["cpu"].get<std::string>() +
                   ", bf16 products " + about["bf16"].get<std::string>();
  })};
  if (!about.is_null()) findings.push_back({"CUDA", Finding::State::good, about["cuda"].get<std::string>()});
  return findings;
}

void plugins(const GlobalOptions& globals, Finding& finding) {
  int good = 0, refused = 0;
  for (const Catalog::Listed& plugin : Catalog(globals.plugin_folders).list()) {
    good += plugin.problem.empty();
    refused += !plugin.problem.empty();
    if (!plugin.problem.empty() && refused == 1) finding.text = plugin.problem;
  }
  if (refused > 0) {
    finding.state = Finding::State::warning;
    finding.text = std::to_string(refused) + " of " + std::to_string(good + refused) +
                   " plugins are refused, the first one: " + finding.text;
  } else if (good == 0) {
    throw Error(ExitStatus::plugin, "none found; build them with `make build`, or name a folder with --plugin-dir");
  } else {
    finding.text = counted(int64_t(good), "plugin") + ", all compatible with this build";
  }
}

/// Opens the log as a run does, which tries a write. Does not create one.
void run_log(const fs::path& database, Finding& finding) {
  if (!fs::exists(database)) {
    finding.text = database.string() + " does not exist yet; the first run creates it";
    return;
  }
  open_log_for_writing(database, std::chrono::seconds(2));
  const Table counts = LogReader(database).query(
      "SELECT count(*), coalesce(sum(status = 'running'), 0), coalesce(sum(status = 'lost'), 0) FROM v_runs", {}, 1);
  const auto count = [&](size_t column) { return with_thousands(counts.rows.at(0).at(column).get<int64_t>()); };
  finding.text = database.string() + ": " + counted(counts.rows.at(0).at(0).get<int64_t>(), "run") + ", " + count(1) +
                 " running, " + count(2) + " lost";
}

void disk_space(const fs::path& database, Finding& finding) {
  fs::path folder = fs::absolute(database).parent_path();
  while (!fs::exists(folder)) folder = folder.parent_path();
  const auto free = int64_t(fs::space(folder).available);
  finding.text = human_bytes(free) + " free in " + folder.string();
  if (free >= low_disk_space) return;
  finding.state = Finding::State::warning;
  finding.text += "; a checkpoint takes 12 bytes per trained parameter, see `wmtp-host plan`";
}

std::vector<Finding> check_all(const GlobalOptions& globals) {
  const fs::path database = globals.database_or(default_database);
  std::vector<Finding> findings{found("machine", machine)};
  for (Finding& finding : engine()) findings.push_back(std::move(finding));
  findings.push_back(found("plugins", [&](Finding& finding) { plugins(globals, finding); }));
  findings.push_back(found("run log", [&](Finding& finding) { run_log(database, finding); }));
  findings.push_back(found("disk", [&](Finding& finding) { disk_space(database, finding); }));
  findings.push_back(found("eval", [](Finding& finding) {
    const Judged judged = Sandbox("python3", {.seconds = 20}).run({.program = "x = 1", .tests = "assert x == 1"});
    if (judged.verdict != Verdict::passed)
      throw Error(ExitStatus::usage, "a program under test fails: " + judged.message);
    finding.text = "programs under test run in the sandbox";
  }));
  return findings;
}

/// A machine without the sandbox of `eval` still runs everything else.
int exit_code_of(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings)
    if (finding.state == Finding::State::bad && finding.what != "eval") return static_cast<int>(finding.status);
  return 0;
}

void print_text(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    const std::string mark = finding.state == Finding::State::good ? "" : std::string(to_string(finding.state)) + ": ";
    std::cout << finding.what << std::string(10 - finding.what.size(), ' ') << mark << finding.text << '\n';
  }
}

void print_json(const std::vector<Finding>& findings) {
  Json all = Json::array();
  for (const Finding& finding : findings)
    all.push_back({{"what", finding.what}, {"state", to_string(finding.state)}, {"text", finding.text}});
  std::cout << all.dump(1) << '\n';
}

}  // namespace

void add_doctor(CommandLine& line) {
  const auto json = std::make_shared<bool>(false);
  auto& doctor = line.add("doctor",
                          "check what a run needs: engine, CUDA, plugins, run log, disk, sandbox\n\n"
                          "examples:\n  wmtp-host doctor\n  wmtp-host doctor --db other.db --json\n",
                          [json](const GlobalOptions& globals) {
                            const std::vector<Finding> findings = check_all(globals);
                            *json ? print_json(findings) : print_text(findings);
                            return exit_code_of(findings);
                          });
  doctor.add_flag("--json", *json, "print JSON");
}

}  // namespace wmtp
