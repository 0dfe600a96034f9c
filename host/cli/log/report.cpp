// `report RUN… -o FILE.html`: the page of `ui` with its data in one file.
#include <memory>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/log/run_words.hpp"
#include "io/durable_file.hpp"
#include "io/output_path.hpp"
#include "ui/page_data.hpp"
#include "ui/report_page.hpp"

namespace wmtp {
namespace {

int write_report(const GlobalOptions& globals, const std::vector<std::string>& words, const std::filesystem::path& file,
                 bool force) {
  const std::filesystem::path database = globals.database_or(default_database);
  const std::filesystem::path target = output_path("-o", file);
  if (!force && is_there(target))
    throw Error(ExitStatus::usage, file.string() + " already exists; choose another file, or replace it with --force");
  const std::vector<int64_t> runs = selected_runs(LogReader(database), words, globals);
  PageData data(database);
  const std::string page = report_page(data, runs);
  write_file_durably(target, page);
  log_info("wrote " + file.string() + " (" + human_bytes(int64_t(page.size())) + ")");
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
                          "write a standalone HTML copy of the `ui` page with the data of runs\n\n"
                          "The file needs no server and no network.\n\n"
                          "example:\n"
                          "  wmtp-host report baseline rho1 -o comparison.html --force\n",
                          reading_log([options](const GlobalOptions& globals) {
                            return write_report(globals, options->runs, options->file, options->force);
                          }));
  add_option(report, "RUN", options->runs, selected_runs_argument, required);
  add_option(report, "-o,--output FILE", options->file, "file to write", required);
  report.add_flag("--force", options->force, "replace an existing file");
}

}  // namespace wmtp
