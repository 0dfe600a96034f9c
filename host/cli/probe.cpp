// `__probe FILE`, `__check SETTINGS`, `__layout QUESTIONS` and `__try QUESTION`: the child process in which the plugin
// store reads a library's description, makes a plugin with its options, asks for the parameters of models, and tries a
// plugin out. Not for people.
#include "core/plugins/probe.hpp"

#include <memory>

#include "cli/command.hpp"
#include "core/job/job.hpp"

namespace wmtp {

void add_probe(CommandLine& line) {
  const auto question = std::make_shared<std::string>();
  auto& probe = line.add_hidden(
      "__probe", [question](const GlobalOptions&) { return probe_child_main(*question, describe_with_engine); });
  probe.add_option("FILE", *question)->required();
  auto& check = line.add_hidden(
      "__check", [question](const GlobalOptions&) { return probe_child_main(*question, check_with_engine); });
  check.add_option("SETTINGS", *question)->required();
  auto& layout = line.add_hidden(
      "__layout", [question](const GlobalOptions&) { return probe_child_main(*question, layouts_with_engine); });
  layout.add_option("QUESTIONS", *question)->required();
  auto& trial = line.add_hidden(
      "__try", [question](const GlobalOptions&) { return probe_child_main(*question, try_with_engine); });
  trial.add_option("QUESTION", *question)->required();
}

}  // namespace wmtp
