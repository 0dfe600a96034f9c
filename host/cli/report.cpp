// `report RUN… -o FILE.html`: the page of `ui` with its data, as one file.
#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "core/runlog/log_reader.hpp"
#include "core/ui/page_data.hpp"
#include "core/ui/report_page.hpp"
#include "io/durable_file.hpp"

namespace wmtp {
namespace {

std::vector<int64_t> runs_of(const std::filesystem::path& database, const std::vector<std::string>& words) {
  const LogReader log(database);
  std::vector<int64_t> runs;
  for (const std::string& word : words) {
    const int64_t run = log.resolve_run(word);
    if (std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(run);
  }
  return runs;
}

int write_report(const std::filesystem::path& database, const std::vector<std::string>& words,
                 const std::filesystem::path& file, bool force) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    throw Error(ExitStatus::usage, file.string() + " is a folder; name a file for the report");
  if (!force && std::filesystem::exists(file, ignored))
    throw Error(ExitStatus::usage,
                file.string() + " is there already; name another file, or say --force to replace it");
  const std::vector<int64_t> runs = runs_of(database, words);
  PageData data(database);
  const std::string page = report_page(data, runs);
  write_file_durably(file, page);
  log_info("wrote " + file.string() + " (" + human_bytes(static_cast<int64_t>(page.size())) + ")");
  return 0;
}

}  // namespace

void add_report(CommandLine& line) {
  struct Options {
    std::vector<std::string> runs;
    std::string file;
    bool force = false;
  };
  const auto options = std::make_shared<Options>();
  auto& report = line.add("report",
                          "write runs into one HTML file: the page of `ui` with its data, to keep or to send\n\n"
                          "It needs no server and no network. An existing file is replaced only with --force, and then "
                          "as a whole.\n\n"
                          "examples:\n  wmtp-host report 3 -o run3.html\n"
                          "  wmtp-host report baseline rho1 -o comparison.html --force\n",
                          reading_log([options](const GlobalOptions& globals) {
                            return write_report(globals.database_or(default_database), options->runs, options->file,
                                                options->force);
                          }));
  report.add_option("RUN", options->runs, "numbers, or names (the newest of each)")->required();
  report.add_option("-o,--output", options->file, "the file to write")->type_name("FILE")->required();
  report.add_flag("--force", options->force, "replace the file if it is there");
}

}  // namespace wmtp
