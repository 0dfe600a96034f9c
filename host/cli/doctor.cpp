// `doctor`: checks everything that a run needs by trying it.
#include <algorithm>
#include <iostream>
#include <memory>

#include "base/json.hpp"
#include "base/json_text.hpp"
#include "cli/command.hpp"
#include "doctor/machine_checks.hpp"

namespace wmtp {
namespace {

const char* to_string(MachineCheck::State state) {
  return state == MachineCheck::State::good ? "good" : state == MachineCheck::State::warning ? "warning" : "bad";
}

/// A machine that cannot run the sandbox of `eval` can still run everything else.
int exit_code_of(const std::vector<MachineCheck>& findings) {
  for (const MachineCheck& finding : findings)
    if (finding.state == MachineCheck::State::bad && finding.what != "eval") return int(finding.status);
  return 0;
}

void print_text(const std::vector<MachineCheck>& findings) {
  size_t width = 8;
  for (const MachineCheck& finding : findings) width = std::max(width, finding.what.size());
  for (const MachineCheck& finding : findings) {
    const std::string mark =
        finding.state == MachineCheck::State::good ? "" : std::string(to_string(finding.state)) + ": ";
    std::cout << finding.what << std::string(width + 2 - finding.what.size(), ' ') << mark << finding.text << '\n';
  }
}

void print_json(const std::vector<MachineCheck>& findings) {
  OrderedJson all = OrderedJson::array();
  for (const MachineCheck& finding : findings)
    all.push_back({{"what", finding.what}, {"state", to_string(finding.state)}, {"text", finding.text}});
  std::cout << dumped(all, 1) << '\n';  // it contains paths
}

}  // namespace

void add_doctor(CommandLine& line) {
  const auto json = std::make_shared<bool>(false);
  const auto device = std::make_shared<std::string>();
  auto& doctor = line.add("doctor",
                          "check what a run needs: engine, CUDA, plugins, run log, disk, sandbox\n\n"
                          "examples:\n"
                          "  wmtp-host doctor --db other.db --json\n"
                          "  wmtp-host doctor --device cuda\n",
                          [json, device](const GlobalOptions& globals) {
                            const std::vector<MachineCheck> findings =
                                device->empty()
                                    ? check_machine(globals.plugin_folders, globals.database_or(default_database))
                                    : check_cuda_device();
                            *json ? print_json(findings) : print_text(findings);
                            return exit_code_of(findings);
                          });
  doctor.add_flag("--json", *json, "print JSON");
  add_option(doctor, "--device", *device,
             "check the first CUDA device instead: each kernel against the CPU, speed, memory, NCCL",
             CLI::IsMember({"cuda"}));
}

}  // namespace wmtp
