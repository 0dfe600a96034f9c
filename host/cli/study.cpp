// `study FILE`: trains what the log lacks of a study, and prints what its members' differences show.
#include "cli/study.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <iostream>
#include <sstream>

#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "comm/rank_environment.hpp"
#include "io/durable_file.hpp"
#include "launch/launcher_stop_handler.hpp"
#include "launch/sweep_run.hpp"
#include "report/table.hpp"
#include "study/figures.hpp"
#include "study/loaded_study.hpp"
#include "study/study_plan.hpp"
#include "study/study_report.hpp"
#include "study/study_rows.hpp"
#include "study/study_training.hpp"

namespace wmtp {
namespace {

struct Options {
  std::string file;
  int64_t jobs = 1;
  bool pilot = false;
  std::vector<std::string> results, known;
  std::string output;
  bool json = false, csv = false;
};

/// While this exists, what runs write to standard output goes to standard error: the table alone is the output.
class OutputToError {
 public:
  OutputToError() : output_(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)) {
    std::cout.flush();
    if (output_.get() < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
      throw storage_error("redirect", "standard output", errno);
  }
  ~OutputToError() {
    std::cout.flush();
    dup2(output_.get(), STDOUT_FILENO);
  }
  OutputToError(const OutputToError&) = delete;

 private:
  FileDescriptor output_;
};

/// What the runs of a study have in common.
JobRequest common_request(const GlobalOptions& globals) {
  JobRequest request;
  globals.add_to(request);
  request.resume = Resume::own;
  return request;
}

/// As members of a sweep.
TrainedRuns train(const std::vector<StudyRun>& runs, const JobRequest& common, int64_t jobs, SourceTexts& texts) {
  SweepRequest request{common, {}, {}, jobs, true};
  for (const StudyRun& run : runs) request.files.push_back({run.file.string(), {run.how}});
  const OutputToError redirected;
  const SweepOutcome outcome = run_sweep(request, texts);
  return {outcome.exit_code, outcome.stop_requested, outcome.ends};
}

/// `database`: keeps the report for the page; "": none does.
void write_report(const Options& options, const Study& stated, const StudyResults& results,
                  const std::filesystem::path& database) {
  const Study study = stopped_study(stated, results);
  const StudyAnalysis analysis = analyse(study, results);
  std::ostringstream markdown, csv;
  try {
    print_markdown(markdown, study, results, analysis);
  } catch (const Json::exception& error) {  // a file of results may contain anything as its plan
    throw Error(ExitStatus::data,
                (options.results.empty() ? options.known : options.results).front() +
                    ": its \"plan\" is not as `wmtp-host study FILE --json` writes it: " + error.what());
  }
  print_table(csv, analysis_table(study, analysis), TableFormat::csv);
  const OrderedJson report = report_json(study, results, analysis);
  const std::string json = report.dump(1) + "\n", curves = curves_svg(study, results),
                    differences = differences_svg(study, analysis);
  if (!database.empty()) store_report(database, report, curves, differences);
  std::cout << (options.json ? json : options.csv ? csv.str() : markdown.str());
  if (options.output.empty()) return;
  const std::filesystem::path folder = options.output;
  make_folder_durably(folder);
  const std::pair<const char*, std::string> files[] = {{".md", markdown.str()},
                                                       {".csv", csv.str()},
                                                       {".json", json},
                                                       {"-curves.svg", curves},
                                                       {"-differences.svg", differences}};
  for (const auto& [ending, text] : files) write_file_durably(folder / (study.name + ending), text);
  log_info("wrote " + study.name + ".md, .csv, .json, -curves.svg and -differences.svg to " + folder.string());
}

/// "FILE reads other data or models here than where the results were made: …"; "" if it does not, or if the results do
/// not say what they read. Error(data) if the data are not here.
std::string input_difference(const Options& options, const StudyResults& results, LoadedStudy& loaded) {
  if (!results.inputs.is_object()) return "";
  Json inputs = loaded.inputs();
  for (const auto& [member, values] : loaded.inputs().items())
    if (!results.inputs.contains(member)) inputs.erase(member);  // it was added to the study
  std::vector<std::string> changes = input_changes(results.inputs, inputs);
  if (changes.empty()) changes = loaded.with_other_data(results.runs);
  if (changes.empty()) return "";
  return options.file + " reads other data or models here than where the results were made: " + join_names(changes);
}

/// Results are shown without their data, too.
void warn_of_other_inputs(const Options& options, const StudyResults& results, LoadedStudy& loaded) try {
  if (const std::string difference = input_difference(options, results, loaded); !difference.empty())
    log_warning(difference);
} catch (const Error& error) {
  if (error.status() != ExitStatus::data) throw;
  log_info("not compared with the data of the results: " + std::string(error.what()));
}

int report_results(const Options& options, LoadedStudy& loaded) {
  StudyResults results;
  for (const std::string& file : options.results) add_results(file, results);
  if (results.hash != study_hash(loaded.definition()))
    log_warning(options.file + " is not the study of these results: " +
                join_names(definition_changes(results.definition, loaded.definition())));
  warn_of_other_inputs(options, results, loaded);
  write_report(options, loaded.study(), results, {});
  return 0;
}

/// Of --known, whose study was begun where the first of them was made.
StudyResults known_results(const Options& options, LoadedStudy& loaded) {
  StudyResults results;
  for (const std::string& file : options.known) add_results(file, results);
  const std::string hash = study_hash(loaded.definition());
  if (results.runs.empty()) return {hash, loaded.definition(), loaded.inputs(), {}, {}, {}};
  const Json extended = with_additions(results.definition, loaded.definition());
  if (study_hash(extended) != hash)
    throw Error(ExitStatus::data, "--known: " + options.file + " is not the study of these results: " +
                                      join_names(definition_changes(extended, loaded.definition())) +
                                      "; leave them out");
  if (!lacks_runs(loaded.study(), results)) {
    warn_of_other_inputs(options, results, loaded);
  } else if (const std::string difference = input_difference(options, results, loaded); !difference.empty()) {
    throw Error(ExitStatus::data,
                "--known: " + difference + "; the runs that they lack would be of another study: leave them out");
  }
  if (results.hash == hash) return results;
  Json& changes = results.plan["changes"];
  for (const std::string& addition : definition_changes(results.definition, loaded.definition()))
    changes.push_back(addition);
  results.hash = hash;
  results.definition = loaded.definition();
  if (results.inputs.is_object()) results.inputs = loaded.inputs();
  return results;
}

StudyPlan print_plan_of(const LoadedStudy& loaded, bool json) {
  StudyPlan plan = loaded.plan();
  if (json)
    std::cout << plan_json(loaded.study(), plan).dump(1) << '\n';
  else
    print_plan(std::cout, loaded.study(), plan);
  return plan;
}

int study(const Options& options, const GlobalOptions& globals) {
  check_thread_count();
  const LauncherStopHandler early;
  const JobRequest common = common_request(globals);
  SourceTexts texts;
  LoadedStudy loaded(options.file, common, texts);
  if (!options.results.empty()) return report_results(options, loaded);
  loaded.warn_of_unknown_metrics();
  const StudyRunner runner{loaded.database(), globals.plugin_folders,
                           [&](const std::vector<StudyRun>& runs) { return train(runs, common, options.jobs, texts); },
                           [&](const StudyRun& run) { return loaded.data_hash(run); },
                           [&](const StudyRun& run) { return loaded.operations_per_step(run); }};
  try {
    if (options.pilot) {
      const int code = train_pilot(loaded.study(), runner);
      print_plan_of(loaded, options.json);
      return code;
    }
    StudyResults results = known_results(options, loaded);
    if (results.plan.is_null()) results.plan = begin_study(loaded.database(), loaded.study().name, loaded.definition());
    const int code = train_study(loaded.study(), runner, results);
    write_report(options, loaded.study(), results, loaded.database());
    return code;
  } catch (const StudyInterrupted&) {
    log_info("the study is not complete; the same command continues it");
    return int(ExitStatus::interrupted);
  }
}

}  // namespace

int plan_study(const std::string& file, bool json, const GlobalOptions& globals) {
  SourceTexts texts;
  const LoadedStudy loaded(file, common_request(globals), texts);
  loaded.warn_of_unknown_metrics();
  const StudyPlan plan = print_plan_of(loaded, json);
  const std::string begun = begun_at(loaded.database(), loaded.study().name, loaded.definition());
  if (begun.empty()) {
    store_plan(loaded.database(), loaded.study().name, loaded.definition(), plan_json(loaded.study(), plan));
    log_info("the plan is stored in " + loaded.database().string() + ", to be compared with what comes out");
  } else {
    log_warning("the study was begun at " + begun + ": this plan came after, and is not stored");
  }
  return 0;
}

void add_study(CommandLine& line) {
  auto [command, options] =
      line.add("study",
               "train the members of a study with several seeds, and compare them\n\n"
               "Runs that the log has are not trained again, so a study that was stopped continues.\n\n"
               "examples:\n"
               "  wmtp-host plan experiments/study/text.toml\n"
               "  wmtp-host study experiments/study/text.toml\n"
               "  wmtp-host study experiments/study/noise.toml --jobs 2 --known here.json\n"
               "  wmtp-host study experiments/study/text.toml --results here.json --results there.json -o report\n",
               study);
  add_option(command, "FILE", options.file, "study (TOML with [study])", required);
  add_option(command, "--jobs K", options.jobs, "runs at the same time, sharing the cores (1)",
             CLI::Range(int64_t{1}, int64_t{4096}));
  CLI::Option* const pilot =
      command.add_flag("--pilot", options.pilot, "train only the seeds of [study] pilot, and print the plan");
  add_option(command, "--results FILE", options.results,
             "train nothing: read what --json wrote here or on other machines; may be repeated", repeatable)
      ->excludes(pilot)
      ->excludes("--jobs");
  add_option(command, "--known FILE", options.known,
             "train only what these results lack, which --json wrote here or on other machines; may be repeated",
             repeatable)
      ->excludes("--pilot")
      ->excludes("--results");
  add_option(command, "-o,--output DIR", options.output, "also write tables in all forms, and figures, to this folder")
      ->excludes(pilot);
  CLI::Option* const json = command.add_flag("--json", options.json, "print JSON, which --results and --known read");
  command.add_flag("--csv", options.csv, "print CSV")->excludes(json)->excludes(pilot);
}

}  // namespace wmtp
