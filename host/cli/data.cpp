// `data prepare`: prepares an experiment's data before its first run, converts published data sets to records, or
// generates arithmetic records. `data inspect`: contents of a data file. `data convert`: tables to JSON lines.
#include <algorithm>
#include <iostream>
#include <memory>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "data/arithmetic/arithmetic.hpp"
#include "data/records/import_records.hpp"
#include "data/records/inspect.hpp"
#include "data/text/table_conversion.hpp"
#include "experiment/load/load.hpp"
#include "io/output_path.hpp"
#include "job/engine_process.hpp"
#include "plugins/catalog.hpp"
#include "report/table.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;

constexpr const char* prepare_help =
    "train the tokenizer and write the token files of an experiment, or convert published data to records\n\n"
    "With --from, FILE is a published data set and -o the file of records (JSONL) to write. `--from arithmetic`\n"
    "takes no FILE and generates problems.\n\n"
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
  /// Options valid for one use only, with that use's name.
  std::vector<std::pair<const CLI::Option*, std::string>> restricted;
};

int prepare_experiment(const Options& options, const GlobalOptions& globals) {
  JobRequest request;
  globals.add_to(request);
  request.file = options.file;
  request.overrides = options.overrides;
  return prepare_with_engine(request);
}

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ExitStatus::usage, message + "; see `wmtp-host data --help`");
}

/// Refuses options that this use would ignore.
void check_use(const Options& options) {
  const std::string use = options.from.empty() ? "an experiment" : "--from " + options.from;
  for (const auto& [option, goes_with] : options.restricted) {
    const bool fits = goes_with == use || (goes_with == "--from" && !options.from.empty());
    if (option->count() > 0 && !fits) refuse(option->get_name() + " applies only to " + goes_with + ", found " + use);
  }
  const bool generates = options.from == "arithmetic";
  if (generates && !options.file.empty()) refuse("--from arithmetic reads no file, found '" + options.file + "'");
  if (!generates && options.file.empty()) refuse("FILE is missing");
  if (!options.from.empty() && options.output.empty()) refuse("--from needs -o FILE: the file of records to write");
}

/// The file to write. `option`: the name of the option that names it.
fs::path checked_output(const std::vector<std::string>& inputs, const fs::path& output, bool force,
                        const std::string& option) {
  std::error_code ignored;
  const std::string found = option + " " + output.string();
  for (const fs::path input : inputs)
    if (fs::equivalent(input, output, ignored)) refuse(found + " is the input file");
  const fs::path target = output_path(option, output);
  if (is_there(target) && !force) refuse(found + " already exists; choose another file, or replace it with --force");
  return target;
}

int prepare_records(const Options& options) {
  const fs::path output = checked_output({options.file}, options.output, options.force, "-o");
  if (options.from == "arithmetic") {
    write_arithmetic(options.arithmetic, output);
    log_info("wrote " + options.output + ": " + counted(options.arithmetic.problems, "problem"));
    return int(ExitStatus::done);
  }
  const Imported imported = import_records(options.from, options.language, options.file, output);
  log_info("wrote " + options.output + ": " + counted(imported.problems, "problem") + ", " +
           with_thousands(imported.right) + " right and " + counted(imported.wrong, "wrong answer"));
  return int(ExitStatus::done);
}

void add_arithmetic_options(CLI::App& prepare, Options& options) {
  ArithmeticConfig& config = options.arithmetic;
  const auto limit = [&](CLI::Option* option) {
    options.restricted.emplace_back(option->group("Options of --from arithmetic"), "--from arithmetic");
  };
  const auto add = [&](const char* name, auto& value, const char* help, const auto&... rules) {
    limit(add_option(prepare, name, value, help, rules...));
  };
  add("--problems", config.problems, "distinct problems", CLI::Range(1, 100000000));
  add("--seed", config.seed, "random seed", CLI::NonNegativeNumber);
  add("--operations", config.operations, "operations used, comma-separated", comma_separated,
      CLI::IsMember({"negate", "add", "multiply", "compose"}));
  add("--min-operations", config.min_operations, "minimum number of operations in a problem", CLI::Range(1, 100));
  add("--max-operations", config.max_operations, "maximum number of operations in a problem", CLI::Range(1, 100));
  add("--answers-right", config.answers_right, "right answers per problem", CLI::Range(0, 1));
  add("--answers-wrong", config.answers_wrong, "wrong answers per problem", CLI::Range(0, 10));
  limit(prepare.add_flag("--steps,!--no-steps", config.steps, "whether answers show the result of each operation"));
}

struct InspectOptions {
  std::string file, kind, dtype;
  bool json = false;
};

/// --kind, or derived from the file's extension.
DataKind kind_of(const InspectOptions& options) {
  const fs::path file = options.file;
  if (const auto given = from_name<DataKind>(options.kind)) return *given;
  if (file.extension() == ".bin" || file.extension() == ".npy") return DataKind::tokens;
  return file.extension() == ".jsonl" ? DataKind::records : DataKind::text;
}

int inspect(const InspectOptions& options, const GlobalOptions&) {
  if (fs::is_directory(options.file)) throw Error(ExitStatus::data, options.file + ": is a folder, wanted a file");
  const DataKind kind = kind_of(options);
  const std::vector<Statistic> found = kind == DataKind::tokens    ? inspect_tokens(options.file, options.dtype)
                                       : kind == DataKind::records ? inspect_records(options.file)
                                                                   : inspect_text(options.file);
  Table table{{"kind"}, {{to_string(kind)}}, false};
  for (const auto& [name, value] : found) {
    table.columns.push_back(name);
    table.rows[0].push_back(value);
  }
  if (options.json) {
    print_table(std::cout, table, TableFormat::json);
    return 0;
  }
  Table lines{{"property", "value"}, {}, false};
  for (size_t i = 0; i < table.columns.size(); ++i) lines.rows.push_back({table.columns[i], table.rows[0][i]});
  print_table(std::cout, lines, TableFormat::text);
  return 0;
}

void add_inspect(CommandLine& line) {
  auto [app, options] = line.add("data inspect",
                                 "describe a data file: token ids (.bin, .npy), records (.jsonl) or text\n\n"
                                 "example:\n"
                                 "  wmtp-host data inspect corpus.bin --dtype uint16\n",
                                 inspect);
  add_option(app, "FILE", options.file, "data file", required);
  add_option(app, "--kind KIND", options.kind, "kind of data (default: by the file's extension)",
             CLI::IsMember({"tokens", "records", "text"}));
  add_option(app, "--dtype DTYPE", options.dtype, "data type of token ids (default: of the header, else uint16)",
             CLI::IsMember({"uint16", "uint32"}));
  app.add_flag("--json", options.json, "print JSON");
}

struct ConvertOptions {
  std::vector<std::string> inputs, columns;
  std::string output, split;
  bool force = false;
};

int convert(const ConvertOptions& options, const GlobalOptions&) {
  const fs::path output = checked_output(options.inputs, options.output, options.force, "--to");
  convert_tables({{options.inputs.begin(), options.inputs.end()}, options.columns, options.split, output});
  log_info("wrote " + options.output);
  return int(ExitStatus::done);
}

void add_data_convert(CommandLine& line) {
  auto [app, options] =
      line.add("data convert",
               "convert tables to JSON lines: Parquet, Arrow, CSV, folders of Hugging Face data sets, JSON lists\n\n"
               "Needs Python, for Parquet and Arrow with pyarrow. Each row becomes an object with a field for each\n"
               "column: `kind = \"text\"` reads the field text, `kind = \"records\"` the formats of data.format.\n\n"
               "examples:\n"
               "  wmtp-host data convert ultrachat_200k/data --split train_sft --columns messages --to chats.jsonl\n"
               "  wmtp-host data convert alpaca_data.json --to alpaca.jsonl\n"
               "  wmtp-host data convert reviews.csv --columns text --to reviews.jsonl\n",
               convert);
  add_option(app, "FILE", options.inputs, "files or folders, concatenated in this order", required);
  add_option(app, "--to FILE", options.output, "file of JSON lines to write", required);
  add_option(app, "--columns", options.columns, "columns to keep, comma-separated (default: all)", comma_separated);
  add_option(app, "--split NAME", options.split, "split of a folder that has several");
  app.add_flag("--force", options.force, "replace an existing output file");
}

}  // namespace

void add_data(CommandLine& line) {
  const auto options = std::make_shared<Options>();
  line.add_group("data", "prepare, inspect and convert data");
  add_inspect(line);
  add_data_convert(line);
  auto& prepare = line.add("data prepare", prepare_help, [options](const GlobalOptions& globals) {
    check_use(*options);
    return options->from.empty() ? prepare_experiment(*options, globals) : prepare_records(*options);
  });
  add_option(prepare, "FILE", options->file, "experiment (TOML), or published data with --from");
  const auto restrict_to = [&](const std::string& use, CLI::Option* option) {
    options->restricted.emplace_back(option, use);
  };
  restrict_to("an experiment", add_set(prepare, options->overrides));
  std::vector<std::string> sources = import_sources();
  sources.push_back("arithmetic");
  add_option(prepare, "--from", options->from, "data set to convert or generate", CLI::IsMember(sources));
  restrict_to("--from", add_option(prepare, "-o,--output FILE", options->output, "file of records to write"));
  restrict_to("--from", prepare.add_flag("--force", options->force, "replace an existing output file"));
  restrict_to("--from codecontests",
              add_option(prepare, "--language", options->language, "programming language of the solutions",
                         CLI::IsMember(import_languages()), shows_default));
  add_arithmetic_options(prepare, *options);
}

}  // namespace wmtp
