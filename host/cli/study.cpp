// `study FILE`: trains what the log lacks of a study, and prints what its members' differences show.
#include "cli/study.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>

#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "comm/rank_environment.hpp"
#include "io/durable_file.hpp"
#include "launch/launcher_stop_handler.hpp"
#include "launch/sweep_run.hpp"
#include "report/table.hpp"
#include "study/evaluations.hpp"
#include "study/figures.hpp"
#include "study/study_plan.hpp"
#include "study/study_report.hpp"
#include "study/study_rows.hpp"

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

/// Thrown where a request to stop ended the runs.
struct Interrupted {};

/// A study with its members loaded and checked.
class LoadedStudy {
 public:
  LoadedStudy(const std::string& file, const GlobalOptions& globals)
      : plugin_folders_(globals.plugin_folders), catalog_(plugin_folders_), study_(read_study(file, texts_)) {
    globals.add_to(request_);
    request_.resume = Resume::if_begun;
    members_ = load_members(study_, request_, catalog_, texts_);
    check_evaluations(study_, {study_.seeds.front()});
    definition_ = study_definition(study_, members_);
    warn_of_unfinished_schedules();
    for (const std::string& warning : unknown_metrics(LogReader(members_.database), study_.metrics()))
      log_warning(study_.file.string() + ": " + warning);
  }

  const Study& study() const { return study_; }
  const Json& definition() const { return definition_; }
  /// Reads the data of the first seed. Error(data) if they are not there.
  Json inputs() const { return study_inputs(study_, members_, catalog_); }
  const std::filesystem::path& database() const { return members_.database; }

  bool lacks_runs(const StudyResults& results) const {
    const std::vector<TunedChoice> any(study_.members.size());
    return !lacking(study_runs(stopped_study(study_, results), any), results.runs).empty();
  }

  StudyPlan plan() { return plan_of_study(study_, members_, request_, catalog_, texts_); }

  /// Trains what neither `results` nor the log has. Returns the exit code of the first run that failed; throws
  /// Interrupted.
  int train(int64_t jobs, StudyResults& results) {
    check_evaluations(study_, study_.seeds);
    const std::vector<StudyResult> known = results.runs;
    const std::vector<TunedChoice> choices = tune(jobs, known, results.tried);
    std::vector<int64_t> looks = study_.stops;
    looks.push_back(int64_t(study_.seeds.size()));
    int code = 0;
    for (const int64_t look : looks) {
      Study so_far = study_;
      so_far.seeds.resize(size_t(look));
      results.runs = known;
      code = train(lacking(study_runs(so_far, choices), known), choices, jobs, results.runs);
      std::ranges::stable_sort(results.runs, {}, [&](const StudyResult& one) {
        return std::ranges::find(study_.seeds, one.seed) - study_.seeds.begin();
      });
      if (stopped_study(study_, results).seeds.size() < study_.seeds.size()) break;
    }
    return code;
  }

  int train_pilot(int64_t jobs) {
    if (study_.pilot_seeds.empty())
      throw Error(ExitStatus::usage, study_.file.string() +
                                         ": --pilot: the study states no seeds of a pilot; add them, other ones than "
                                         "its own: pilot = [1, 2, 3]");
    check_evaluations(study_, study_.pilot_seeds);
    const std::vector<StudyRun> runs = pilot_runs(study_, study_.pilot_seeds);
    const SweepOutcome outcome = run(runs, jobs);
    for (size_t i = 0; i < runs.size(); ++i)
      if (outcome.ends[i].run != 0) result_of(runs[i], outcome.ends[i]);
    return outcome.exit_code;
  }

 private:
  SweepOutcome run(const std::vector<StudyRun>& runs, int64_t jobs) {
    SweepRequest request{request_, {}, {}, jobs, true};
    for (const StudyRun& run : runs) request.files.push_back({run.file.string(), {run.how}});
    const OutputToError redirected;
    SweepOutcome outcome = run_sweep(request, texts_);
    const auto is_interrupted = [](const SweepEnd& end) { return end.code == int(ExitStatus::interrupted); };
    if (std::ranges::any_of(outcome.ends, is_interrupted)) throw Interrupted();
    return outcome;
  }

  std::vector<StudyRun> lacking(std::vector<StudyRun> runs, const std::vector<StudyResult>& known) const {
    std::erase_if(runs, [&](const StudyRun& run) {
      return find_result(known, study_.members[run.member].name, run.seed) != nullptr;
    });
    return runs;
  }

  int train(const std::vector<StudyRun>& runs, const std::vector<TunedChoice>& choices, int64_t jobs,
            std::vector<StudyResult>& results) {
    if (runs.empty()) return 0;
    const SweepOutcome outcome = run(runs, jobs);
    for (size_t i = 0; i < runs.size(); ++i) {
      if (outcome.ends[i].run == 0) continue;
      StudyResult found = result_of(runs[i], outcome.ends[i]);
      found.choice = choices[runs[i].member];
      found.operations_per_step = operations_per_step(runs[i]);
      results.push_back(std::move(found));
    }
    return outcome.exit_code;
  }

  /// The same for all seeds of a member, whose tuned keys are chosen once.
  double operations_per_step(const StudyRun& run) {
    const auto [known, is_new] = operations_per_step_.try_emplace(run.member);
    if (is_new) known->second = member_cost(load_run(run, request_, catalog_, texts_), catalog_).operations_per_step;
    return known->second;
  }

  /// A falling learning rate favours the member that has more of it behind it.
  void warn_of_unfinished_schedules() const {
    if (study_.budgets.size() == 1) return;  // the end
    for (size_t i = 0; i < study_.members.size(); ++i)
      if (const Schedule name = members_.jobs[i].experiment.schedule.name; name != Schedule::constant) {
        log_warning(study_.file.string() + ": its budgets compare runs before their end, where the learning rate of " +
                    printable(study_.members[i].name) + " still falls (schedule.name = " + printable(to_string(name)) +
                    "), so that they favour the shorter run; state schedule.name = \"constant\"");
        return;
      }
  }

  StudyResult result_of(const StudyRun& run, const SweepEnd& end) const {
    StudyResult found;
    found.member = study_.members[run.member].name;
    found.seed = run.seed;
    found.diverged = end.code != 0;
    const LogReader log(database());
    read_curves(log, end.run, study_.metrics(), found);
    if (found.diverged) return found;
    evaluate_run(study_, end.run, run.seed, database(), plugin_folders_);
    read_evaluations(log, end.run, study_, found);
    return found;
  }

  /// The best choice of every member with tuned keys, or the one that its known results have. Error(data) if one has
  /// none.
  std::vector<TunedChoice> tune(int64_t jobs, const std::vector<StudyResult>& known, std::vector<TriedChoice>& all) {
    std::vector<TunedChoice> chosen(study_.members.size());
    for (const StudyResult& one : known)
      for (size_t i = 0; i < chosen.size(); ++i)
        if (one.member == study_.members[i].name) chosen[i] = one.choice;
    std::vector<size_t> open;
    for (size_t i = 0; i < chosen.size(); ++i)
      if (!study_.members[i].tuned.empty() && chosen[i].empty()) open.push_back(i);
    std::vector<StudyRun> runs;
    for (const size_t i : open)
      std::ranges::move(tuning_runs(study_, i, tuned_choices(study_, i)), std::back_inserter(runs));
    if (runs.empty()) return chosen;
    const SweepOutcome outcome = run(runs, jobs);
    if (outcome.exit_code != 0)
      throw Error(ExitStatus(outcome.exit_code), "a run of the tuning failed; the same command continues the study");
    size_t next = 0;
    for (const size_t i : open) {
      const std::vector<TunedChoice> choices = tuned_choices(study_, i);
      std::vector<TriedChoice> tried;
      for (const TunedChoice& choice : choices) {
        tried.push_back({study_.members[i].name, choice, {}});
        for (size_t k = 0; k < study_.tuning.seeds.size(); ++k, ++next)
          tried.back().values.push_back(
              value_at(result_of(runs[next], outcome.ends[next]), study_.metric, BudgetUnit::end, 0));
      }
      const auto best = best_choice(study_, tried);
      if (!best)
        throw Error(ExitStatus::data, study_.members[i].place + ": the tuning of member " +
                                          printable(study_.members[i].name) + " has no choice whose runs all have a " +
                                          study_.metric + " at their end; state other values");
      std::ranges::move(tried, std::back_inserter(all));
      chosen[i] = choices[*best];
      log_info("tuned " + study_.members[i].name + ": " + join_names(chosen[i]) + ", the best of " +
               counted(int64_t(choices.size()), "choice"));
    }
    return chosen;
  }

  SourceTexts texts_;
  std::vector<std::filesystem::path> plugin_folders_;
  Catalog catalog_;
  JobRequest request_;
  Study study_;
  LoadedMembers members_;
  Json definition_;
  std::map<size_t, double> operations_per_step_;  ///< by member, of those whose runs have ended
};

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
std::string input_difference(const Options& options, const StudyResults& results, const LoadedStudy& loaded) {
  if (!results.inputs.is_object()) return "";
  const auto changes = input_changes(results.inputs, loaded.inputs());
  if (changes.empty()) return "";
  return options.file + " reads other data or models here than where the results were made: " + join_names(changes);
}

/// Results are shown without their data, too.
void warn_of_other_inputs(const Options& options, const StudyResults& results, const LoadedStudy& loaded) try {
  if (const std::string difference = input_difference(options, results, loaded); !difference.empty())
    log_warning(difference);
} catch (const Error& error) {
  if (error.status() != ExitStatus::data) throw;
  log_info("not compared with the data of the results: " + std::string(error.what()));
}

int report_results(const Options& options, const LoadedStudy& loaded) {
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
StudyResults known_results(const Options& options, const LoadedStudy& loaded) {
  StudyResults results;
  for (const std::string& file : options.known) add_results(file, results);
  const std::string hash = study_hash(loaded.definition());
  if (!results.runs.empty() && results.hash != hash)
    throw Error(ExitStatus::data, "--known: " + options.file + " is not the study of these results: " +
                                      join_names(definition_changes(results.definition, loaded.definition())) +
                                      "; leave them out");
  if (results.runs.empty()) return {hash, loaded.definition(), loaded.inputs(), {}, {}, {}};
  if (!loaded.lacks_runs(results)) {
    warn_of_other_inputs(options, results, loaded);
  } else if (const std::string difference = input_difference(options, results, loaded); !difference.empty()) {
    throw Error(ExitStatus::data,
                "--known: " + difference + "; the runs that they lack would be of another study: leave them out");
  }
  return results;
}

StudyPlan print_plan_of(LoadedStudy& loaded, bool json) {
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
  LoadedStudy loaded(options.file, globals);
  if (!options.results.empty()) return report_results(options, loaded);
  try {
    if (options.pilot) {
      const int code = loaded.train_pilot(options.jobs);
      print_plan_of(loaded, options.json);
      return code;
    }
    StudyResults results = known_results(options, loaded);
    if (results.plan.is_null()) results.plan = begin_study(loaded.database(), loaded.study().name, loaded.definition());
    const int code = loaded.train(options.jobs, results);
    write_report(options, loaded.study(), results, loaded.database());
    return code;
  } catch (const Interrupted&) {
    log_info("the study is not complete; the same command continues it");
    return int(ExitStatus::interrupted);
  }
}

}  // namespace

int plan_study(const std::string& file, bool json, const GlobalOptions& globals) {
  LoadedStudy loaded(file, globals);
  const StudyPlan plan = print_plan_of(loaded, json);
  const std::string begun = begun_at(loaded.database(), loaded.study().name);
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
               "  wmtp-host study experiments/study/text.toml --jobs 2\n"
               "  wmtp-host study experiments/study/text.toml --known here.json\n"
               "  wmtp-host study experiments/study/text.toml --results here.json --results there.json -o report\n",
               study);
  add_option(command, "FILE", options.file, "study (TOML with [study])", required);
  add_option(command, "--jobs K", options.jobs, "runs at the same time, sharing the cores (1)",
             CLI::Range(int64_t{1}, int64_t{4096}));
  CLI::Option* const pilot =
      command.add_flag("--pilot", options.pilot, "train only the seeds of [study] pilot, and print the plan");
  add_option(command, "--results FILE", options.results,
             "train nothing: read what --json wrote here or on other machines; may be repeated", repeatable)
      ->excludes(pilot);
  add_option(command, "--known FILE", options.known,
             "train only what these results lack, which --json wrote here or on other machines; may be repeated",
             repeatable)
      ->excludes("--pilot")
      ->excludes("--results");
  add_option(command, "-o,--output DIR", options.output, "also write tables in all forms, and figures, to this folder");
  CLI::Option* const json = command.add_flag("--json", options.json, "print JSON, which --results and --known read");
  command.add_flag("--csv", options.csv, "print CSV")->excludes(json);
}

}  // namespace wmtp
