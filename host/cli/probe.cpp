// `__probe FILE`: the child process in which the plugin store reads a library's description. Not for people.
#include "plugin/probe.hpp"

#include <memory>

#include "cli/command.hpp"
#include "run/job.hpp"

namespace wmtp {

void add_probe(CommandLine& line) {
  const auto file = std::make_shared<std::string>();
  auto& probe = line.add_hidden("__probe",
                                [file](const GlobalOptions&) { return probe_child_main(*file, describe_with_engine); });
  probe.add_option("FILE", *file)->required();
}

}  // namespace wmtp
