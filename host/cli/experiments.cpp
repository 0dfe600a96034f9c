// `experiments`: lists the shipped experiments, and copies them to where they can be run and changed: those of a wheel
// lie in site-packages.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/installation.hpp"
#include "base/shell_text.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "io/durable_file.hpp"
#include "report/table.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string copy;
  bool json = false;
};

/// The first sentence of the comment that an experiment begins with.
std::string first_sentence(const fs::path& file) {
  std::ifstream lines(file);
  std::string text, line;
  while (std::getline(lines, line) && line.starts_with("# ")) {
    text += (text.empty() ? "" : " ") + line.substr(2);
    if (const size_t end = text.find(". "); end != std::string::npos) return text.substr(0, end);
  }
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::vector<fs::path> shipped_experiments(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".toml") files.push_back(entry.path().lexically_relative(folder));
  std::ranges::sort(files);
  return files;
}

void copy_experiments(const fs::path& from, const fs::path& to) {
  if (is_there(to))
    throw Error(ExitStatus::usage, "--copy: " + to.string() + " already exists; choose a folder that does not");
  FolderDraft draft(to);
  fs::copy(from, draft.path(), fs::copy_options::recursive);
  draft.publish();
  std::cout << "copied " << counted(int64_t(shipped_experiments(to).size()), "experiment") << " to " << to.string()
            << "\nnext:\n  wmtp-host run " << shell_path((to / "rho1.toml").string()) << "\n";
}

int experiments(const Options& options, const GlobalOptions&) {
  const fs::path folder = experiments_folder();
  if (!options.copy.empty()) {
    copy_experiments(folder, options.copy);
    return 0;
  }
  Table table{{"experiment", "what it trains"}, {}, false};
  for (const fs::path& file : shipped_experiments(folder))
    table.rows.push_back({file.string(), first_sentence(folder / file)});
  print_table(std::cout, table, options.json ? TableFormat::json : TableFormat::text);
  if (!options.json) std::cout << "in " << folder.string() << "; --copy FOLDER copies them\n";
  return 0;
}

}  // namespace

void add_experiments(CommandLine& line) {
  auto [app, options] = line.add("experiments",
                                 "list or copy the shipped experiments\n\n"
                                 "examples:\n"
                                 "  wmtp-host experiments\n"
                                 "  wmtp-host experiments --copy experiments && wmtp-host run experiments/rho1.toml\n",
                                 experiments);
  add_option(app, "--copy FOLDER", options.copy, "copy them to a new folder");
  app.add_flag("--json", options.json, "print JSON");
}

}  // namespace wmtp
