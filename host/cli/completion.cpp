// `completion SHELL`: a shell script that asks this program for completions at each TAB (`__complete`), so that
// commands, options and names of runs are never out of date. If there are none, the shell offers files.
#include <iostream>
#include <memory>
#include <set>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "log/log_reader.hpp"

namespace wmtp {
namespace {

constexpr int64_t max_names = 1000;

// clang-format off
constexpr const char* bash_script = R"shell(# eval "$(wmtp-host completion bash)"
_wmtp_host() {
  local IFS=$'\n'
  COMPREPLY=($(wmtp-host __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _wmtp_host wmtp-host
)shell";

// Also a file of zsh's functions, whose content is then the function that the first TAB calls.
constexpr const char* zsh_script = R"shell(#compdef wmtp-host
# eval "$(wmtp-host completion zsh)", after compinit
_wmtp_host() {
  local -a found
  found=("${(@f)$(wmtp-host __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if (( ${#found} && ${#found[1]} )); then
    compadd -a found
  else
    _files
  fi
}
if [ "${funcstack[1]}" = "_wmtp_host" ]; then
  _wmtp_host
else
  compdef _wmtp_host wmtp-host
fi
)shell";

constexpr const char* fish_script = R"shell(# wmtp-host completion fish | source
function __wmtp_host
    set -l words (commandline -opc) (commandline -ct)
    set -l found (wmtp-host __complete $words[2..-1] 2>/dev/null)
    if test -n "$found"
        printf '%s\n' $found
    else
        __fish_complete_path $words[-1]
    end
end
complete -c wmtp-host -f -a '(__wmtp_host)'
)shell";
// clang-format on

int print_script(const std::string& shell) {
  std::cout << (shell == "bash" ? bash_script : shell == "zsh" ? zsh_script : fish_script);
  return 0;
}

void print_runs(const std::string& prefix, const GlobalOptions& globals) {
  const LogReader log(globals.database_or(default_database), std::chrono::milliseconds(500));
  const Table names = log.query("SELECT DISTINCT name FROM runs ORDER BY id DESC", {}, max_names);
  for (const auto& row : names.rows)
    if (const auto name = row[0].get<std::string>(); name.starts_with(prefix)) std::cout << name << '\n';
}

}  // namespace

void add_completion(CommandLine& line) {
  const auto shell = std::make_shared<std::string>();
  auto& completion = line.add("completion",
                              "print a shell script that completes commands, options and names of runs\n\n"
                              "examples:\n  eval \"$(wmtp-host completion bash)\"\n"
                              "  wmtp-host completion fish | source\n",
                              [shell](const GlobalOptions&) { return print_script(*shell); });
  add_option(completion, "SHELL", *shell, "shell", required, CLI::IsMember({"bash", "zsh", "fish"}));

  const auto words = std::make_shared<std::vector<std::string>>();
  auto& complete = line.add_hidden("__complete", [&line, words](const GlobalOptions& globals) {
    const CommandLine::Completions found = line.complete(*words);
    for (const std::string& word : found.words) std::cout << word << '\n';
    if (found.words.empty() && found.argument == "RUN") print_runs(words->empty() ? "" : words->back(), globals);
    return 0;
  });
  complete.allow_extras()->prefix_command();
  complete.parse_complete_callback([&complete, words] { *words = complete.remaining(); });
}

}  // namespace wmtp
