// `data prepare`: what an experiment reads, made before the first run wants it; or records, out of published data or of
// our own making, as a file. `data inspect`: what a file holds.
#include <algorithm>
#include <iostream>
#include <memory>

#include "base/counted.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "core/arithmetic/arithmetic.hpp"
#include "core/config/load.hpp"
#include "core/job/engine_process.hpp"
#include "core/plugins/catalog.hpp"
#include "core/records/import_records.hpp"
#include "core/records/inspect.hpp"
#include "core/report/table.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;

constexpr const char* prepare_help =
    "train the tokenizer and write the token files that an experiment reads, or make records of published data\n\n"
    "With --from, FILE is data as its owner publishes it, and -o the records (JSONL) that come of it; `--from "
    "arithmetic`\n"
    "takes no FILE and makes problems of its own.\n\n"
    "examples:\n"
    "  wmtp-host data prepare experiments/rho1.toml\n"
    "  wmtp-host data prepare HumanEval.jsonl --from humaneval -o humaneval.jsonl\n"
    "  wmtp-host data prepare train.jsonl --from codecontests --language cpp -o contests.jsonl\n"
    "  wmtp-host data prepare --from arithmetic --problems 1000 --seed 1 -o arithmetic.jsonl\n";

struct Options {
  std::string file, from, output, language = "python3";
  bool force = false;
  std::vector<std::string> overrides;
  ArithmeticConfig arithmetic;
  /// Those that go with one use only, and the word that says with which.
  std::vector<std::pair<const CLI::Option*, std::string>> particular;
};

int prepare_experiment(const Options& options, const GlobalOptions& globals) {
  JobRequest request;
  globals.add_to(request);
  request.file = options.file;
  request.overrides = options.overrides;
  return prepare_with_engine(request);
}

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ExitStatus::usage, message + "; see `wmtp-host data prepare --help`");
}

/// An option that the use at hand would ignore is refused.
void check_use(const Options& options) {
  const std::string use = options.from.empty() ? "an experiment" : "--from " + options.from;
  for (const auto& [option, goes_with] : options.particular) {
    const bool fits = goes_with == use || (goes_with == "--from" && !options.from.empty());
    if (option->count() > 0 && !fits) refuse(option->get_name() + " goes with " + goes_with + ", found " + use);
  }
  const bool makes = options.from == "arithmetic";
  if (makes && !options.file.empty()) refuse("--from arithmetic reads no file, found '" + options.file + "'");
  if (!makes && options.file.empty()) refuse("no FILE is given");
  if (!options.from.empty() && options.output.empty()) refuse("--from needs -o FILE: where the records are written");
}

void check_output(const Options& options) {
  std::error_code ignored;
  const fs::path output = options.output;
  if (fs::equivalent(options.file, output, ignored)) refuse("-o " + options.output + " is the file that is read");
  if (fs::is_directory(output, ignored)) refuse("-o " + options.output + " is a folder, wanted a file");
  if (fs::exists(output, ignored) && !options.force)
    refuse("-o " + options.output + " is there already; name another file, or replace it with --force");
}

int prepare_records(const Options& options) {
  check_output(options);
  if (options.from == "arithmetic") {
    write_arithmetic(options.arithmetic, options.output);
    log_info("wrote " + options.output + ": " + counted(options.arithmetic.problems, "problem"));
    return static_cast<int>(ExitStatus::done);
  }
  const Imported imported = import_records(options.from, options.language, options.file, options.output);
  log_info("wrote " + options.output + ": " + counted(imported.problems, "problem") + ", " +
           with_thousands(imported.right) + " right and " + counted(imported.wrong, "wrong answer"));
  return static_cast<int>(ExitStatus::done);
}

void add_arithmetic_options(CLI::App& prepare, Options& options) {
  ArithmeticConfig& made = options.arithmetic;
  const auto add = [&](CLI::Option* option) {
    option->group("Options of --from arithmetic");
    options.particular.emplace_back(option, "--from arithmetic");
    return option;
  };
  add(prepare.add_option("--problems", made.problems, "expressions, all different"))->check(CLI::Range(1, 100000000));
  add(prepare.add_option("--seed", made.seed, "the problems follow from it"))->check(CLI::NonNegativeNumber);
  add(prepare.add_option("--operations", made.operations, "what expressions are made of, with commas between"))
      ->delimiter(',')
      ->check(CLI::IsMember({"negate", "add", "multiply", "compose"}));
  add(prepare.add_option("--min-operations", made.min_operations, "fewest of a problem"))->check(CLI::Range(1, 100));
  add(prepare.add_option("--max-operations", made.max_operations, "most of a problem"))->check(CLI::Range(1, 100));
  add(prepare.add_option("--answers-right", made.answers_right, "to each problem"))->check(CLI::Range(0, 1));
  add(prepare.add_option("--answers-wrong", made.answers_wrong, "to each problem"))->check(CLI::Range(0, 10));
  add(prepare.add_flag("--steps,!--no-steps", made.steps, "whether answers show the result of each operation"));
}

struct InspectOptions {
  std::string file, kind, dtype = "uint16";
  bool json = false;
};

/// By the file's name where nothing is said.
std::string kind_of(const InspectOptions& options) {
  const fs::path file = options.file;
  if (!options.kind.empty()) return options.kind;
  if (file.extension() == ".bin") return "tokens";
  return file.extension() == ".jsonl" ? "records" : "text";
}

int inspect(const InspectOptions& options) {
  if (fs::is_directory(options.file)) throw Error(ExitStatus::data, options.file + ": it is a folder, wanted a file");
  const std::string kind = kind_of(options);
  const std::vector<Finding> found = kind == "tokens"    ? inspect_tokens(options.file, options.dtype)
                                     : kind == "records" ? inspect_records(options.file)
                                                         : inspect_text(options.file);
  Table table{{"kind"}, {{kind}}, false};
  for (const auto& [name, value] : found) {
    table.columns.push_back(name);
    table.rows[0].push_back(std::visit([](const auto& held) { return nlohmann::json(held); }, value));
  }
  if (options.json) {
    print_table(std::cout, table, TableFormat::json);
    return 0;
  }
  Table lines{{"what", "found"}, {}, false};
  for (size_t i = 0; i < table.columns.size(); ++i) lines.rows.push_back({table.columns[i], table.rows[0][i]});
  print_table(std::cout, lines, TableFormat::text);
  return 0;
}

void add_inspect(CommandLine& line) {
  const auto options = std::make_shared<InspectOptions>();
  auto& app = line.add("data inspect",
                       "tell what a data file holds: token ids (.bin), records (.jsonl) or text\n\n"
                       "examples:\n  wmtp-host data inspect corpus.bin --dtype uint16\n"
                       "  wmtp-host data inspect answers.jsonl --json\n",
                       [options](const GlobalOptions&) { return inspect(*options); });
  app.add_option("FILE", options->file, "the file")->required();
  app.add_option("--kind", options->kind, "tokens, records or text; by the file's name when not given")
      ->type_name("KIND")
      ->check(CLI::IsMember({"tokens", "records", "text"}));
  app.add_option("--dtype", options->dtype, "of token ids")
      ->type_name("DTYPE")
      ->check(CLI::IsMember({"uint16", "uint32"}))
      ->capture_default_str();
  app.add_flag("--json", options->json, "as JSON");
}

}  // namespace

void add_data(CommandLine& line) {
  const auto options = std::make_shared<Options>();
  line.add_group("data", "prepare data, and look at it");
  add_inspect(line);
  auto& prepare = line.add("data prepare", prepare_help, [options](const GlobalOptions& globals) {
    check_use(*options);
    return options->from.empty() ? prepare_experiment(*options, globals) : prepare_records(*options);
  });
  prepare.add_option("FILE", options->file, "the experiment's TOML file, or published data");
  const auto particular = [&](const std::string& goes_with, CLI::Option* option) {
    options->particular.emplace_back(option, goes_with);
    return option;
  };
  particular("an experiment",
             prepare.add_option("--set", options->overrides, "another value for a key, as in TOML; may be repeated"))
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  std::vector<std::string> sources = import_sources();
  sources.push_back("arithmetic");
  prepare.add_option("--from", options->from, "whose data it is")->check(CLI::IsMember(sources));
  particular("--from", prepare.add_option("-o,--output", options->output, "the records' file"))->type_name("FILE");
  particular("--from", prepare.add_flag("--force", options->force, "replace the file of -o"));
  particular("--from codecontests", prepare.add_option("--language", options->language, "of the solutions"))
      ->check(CLI::IsMember(import_languages()))
      ->capture_default_str();
  add_arithmetic_options(prepare, *options);
}

}  // namespace wmtp
