// `eval`: answers to a suite of problems, a model's own or given ones, scored by really running the suite's tests, or
// by exact match; or what its heads lose on a text.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/counted.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/eval_text.hpp"
#include "core/job/engine_process.hpp"
#include "core/job/find_model.hpp"
#include "core/runlog/evaluations.hpp"
#include "evaluate/evaluation.hpp"
#include "io/durable_file.hpp"

namespace wmtp {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* eval_help =
    "score a model: its answers to problems, or its heads on a text\n\n"
    "Answers are judged by running the suite's tests, or by exact match.\n"
    "The suite is a file of problems in the shape of HumanEval or MBPP (JSONL), or of records (instruction,\n"
    "output; an answer is right when it is the output, to the last character). With --extract a record's answer\n"
    "is right when its number is the output's: strict is what follows the first \"#### \", flexible the last\n"
    "number, as lm-evaluation-harness scores GSM8K, and both scores are printed. The answers are those of a model\n"
    "(RUN), or are given (--samples: JSONL of task_id and completion, any number for each problem). Every program\n"
    "runs in a process of its own that can write only to a folder of its own, open no socket, start and signal no\n"
    "process, and has limits of time, memory and of what it writes (64 MiB); its tests run in another process,\n"
    "which takes plain values from it. Of a run of the log, each answer goes into the log with its verdict, and\n"
    "so does what its heads lose on a text.\n\n"
    "A text is read in windows of the length that the model was made for. The first token of each does not count,\n"
    "since nothing predicts it. With --stride N windows overlap: each token but the text's first counts once, and has\n"
    "at least the window's length less N before it.\n\n"
    "examples:\n"
    "  wmtp-host eval rho1 --suite HumanEval.jsonl\n"
    "  wmtp-host eval rho1 --suite HumanEval.jsonl --answers 20 --temperature 0.8 --top-p 0.95 -o results.jsonl\n"
    "  wmtp-host eval --suite HumanEval.jsonl --samples samples.jsonl -k 1,10 --seconds 5 --json\n"
    "  wmtp-host eval arithmetic --suite problems.jsonl --template plain\n"
    "  wmtp-host eval arithmetic --suite gsm8k.jsonl --extract flexible\n"
    "  wmtp-host eval rho1 --text held_out.py --text README.md\n"
    "  wmtp-host eval rho1 --text held_out.py --stride 16\n";

struct Options {
  std::string run, suite, samples, output, python = "python3", prompt_template = "alpaca";
  std::vector<std::string> texts;
  int64_t stride = 0;
  AnswerRequest answers;
  std::optional<Extraction> extraction;
  std::vector<const CLI::Option*> of_answers;  ///< that go with a RUN only
  std::vector<int64_t> ks;
  SandboxLimits limits;
  int64_t memory_mib = limits.memory_bytes >> 20;
  int jobs = int(std::max(1u, std::thread::hardware_concurrency()));
  bool json = false;
};

void write_results(const std::string& file, const std::vector<Problem>& suite, const std::vector<Sample>& samples,
                   const std::vector<Judged>& judged) {
  std::string lines;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Json line{{"task_id", suite[samples[i].problem].task_id},
                    {"completion", samples[i].completion},
                    {"passed", judged[i].verdict == Verdict::passed},
                    {"verdict", to_string(judged[i].verdict)},
                    {"told", judged[i].message},
                    {"seconds", judged[i].seconds}};
    lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  write_file_durably(file, lines);
}

constexpr std::pair<const char*, Extraction> extractions[] = {{"strict", Extraction::strict},
                                                              {"flexible", Extraction::flexible}};

/// By each extraction: the mean over the problems of the share of right answers.
using ExactMatch = std::vector<std::pair<std::string, double>>;

ExactMatch exact_match(const std::vector<Problem>& suite, const std::vector<Sample>& samples) {
  ExactMatch scores;
  for (const auto& [name, extraction] : extractions)
    scores.emplace_back(name,
                        score_of(suite, samples, judge(suite, samples, nullptr, 1, extraction), {1}).pass_at.at(1));
  return scores;
}

void print_text(const std::vector<Problem>& suite, const Score& score, const ExactMatch& matches) {
  std::cout << counted(score.samples, "sample") << " of " << counted(int64_t(suite.size()), "problem") << ": "
            << with_thousands(score.passed) << " passed, "
            << with_thousands(score.samples - score.passed - score.timed_out) << " failed, "
            << with_thousands(score.timed_out) << " ran out of time\n";
  for (const auto& [k, value] : score.pass_at) std::cout << "pass@" << k << "  " << printed("%.4f", value) << '\n';
  for (const auto& [name, value] : matches)
    std::cout << "exact match, " << name << "  " << printed("%.4f", value) << '\n';
}

void print_json(const std::vector<Problem>& suite, const Score& score, const ExactMatch& matches) {
  Json json{{"problems", suite.size()},
            {"samples", score.samples},
            {"passed", score.passed},
            {"timed_out", score.timed_out},
            {"pass_at", Json::object()}};
  for (const auto& [k, value] : score.pass_at) json["pass_at"][std::to_string(k)] = value;
  for (const auto& [name, value] : matches) json["exact_match"][name] = value;
  std::cout << json.dump(1) << '\n';
}

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ExitStatus::usage, message + "; see `wmtp-host eval --help`");
}

void check_use(const Options& options) {
  if (options.suite.empty() == options.texts.empty())
    refuse(options.suite.empty() ? "neither --suite nor --text says what to score with"
                                 : "found both --suite and --text, wanted one of them");
  if (!options.texts.empty() &&
      (options.run.empty() || !options.samples.empty() || !options.output.empty() || options.extraction))
    refuse("--text goes with a RUN, and with no --samples, no --extract and no -o");
  if (options.run.empty() == options.samples.empty())
    refuse(options.run.empty() ? "neither a RUN nor --samples says whose answers are to be scored"
                               : "found both a RUN and --samples, wanted one of them");
  if (options.stride > 0 && options.texts.empty()) refuse("--stride goes with --text");
  for (const CLI::Option* option : options.of_answers)
    if (option->count() > 0 && options.run.empty()) refuse(option->get_name() + " goes with a RUN");
  if (options.answers.samples > 1 && options.answers.temperature == 0)
    refuse("--answers " + std::to_string(options.answers.samples) +
           " goes with a --temperature above 0: greedy answers are all the same");
  if (!options.output.empty() && std::filesystem::exists(options.output))
    refuse("-o " + options.output + " is there already; name another file");
}

std::vector<Sample> answers_of(const Options& options, const Suite& suite, const std::filesystem::path& model) {
  AnswerRequest request = options.answers;
  request.model = model;
  request.stops = suite.stops;
  for (const Problem& problem : suite.problems) request.prompts.push_back(problem.prompt);
  std::vector<Sample> samples;
  size_t too_long = 0;
  for (const auto& sample : answer_with_engine(request))
    for (size_t problem = 0; problem < sample.size(); ++problem) {
      too_long += !sample[problem];
      samples.push_back({problem, sample[problem].value_or("")});
    }
  if (too_long > 0)
    log_warning(with_thousands(int64_t(too_long)) +
                " answers are empty, and fail: their prompts are longer than what the model reads");
  return samples;
}

/// Behind the suite's name in the log: the same answers have other verdicts.
std::string verdicts_by(std::optional<Extraction> extraction) {
  for (const auto& [name, one] : extractions)
    if (extraction == one) return std::string(" (--extract ") + name + ")";
  return "";
}

void log_answers(const std::filesystem::path& database, int64_t run_id, const Options& options,
                 const std::vector<Problem>& suite, const std::vector<Sample>& samples,
                 const std::vector<Judged>& judged) {
  const AnswerRequest& how = options.answers;
  LoggedEvaluation evaluation{
      .run_id = run_id,
      .suite = std::filesystem::absolute(options.suite).lexically_normal().string() + verdicts_by(options.extraction),
      .suite_sha256 = sha256_of_file(options.suite),
      .max_tokens = how.max_tokens,
      .temperature = how.temperature,
      .top_p = how.top_p,
      .seed = int64_t(how.seed)};
  std::vector<int64_t> of_problem(suite.size(), 0);
  for (size_t i = 0; i < samples.size(); ++i) {
    const size_t problem = samples[i].problem;
    evaluation.answers.push_back({suite[problem].task_id, ++of_problem[problem], to_string(judged[i].verdict),
                                  judged[i].seconds, judged[i].message, samples[i].completion});
  }
  log_info("evaluation " + std::to_string(log_evaluation(database, evaluation)) + " of run " + std::to_string(run_id) +
           " is in the log; `wmtp-host sql \"SELECT * FROM v_evaluations\"` shows it");
}

int evaluate(Options options, const GlobalOptions& globals) {
  options.limits.memory_bytes = options.memory_mib << 20;
  check_use(options);
  if (!options.texts.empty())
    return evaluate_text(options.run, options.texts, options.stride, options.json,
                         globals.database_or(default_database));
  const Suite read = read_suite(options.suite, options.prompt_template);
  const std::vector<Problem>& suite = read.problems;
  if (options.extraction && read.runs_programs)
    refuse("--extract goes with a suite of records, and " + options.suite + " has tests to run");
  std::optional<Sandbox> sandbox;
  if (read.runs_programs) sandbox.emplace(options.python, options.limits);
  const std::filesystem::path database = globals.database_or(default_database);
  const FoundModel model = options.run.empty() ? FoundModel() : find_model(options.run, database);
  const std::vector<Sample> samples =
      options.run.empty() ? read_samples(options.samples, suite) : answers_of(options, read, model.folder);
  check_samples(suite, samples, options.ks);
  const std::vector<Judged> judged =
      judge(suite, samples, sandbox ? &*sandbox : nullptr, options.jobs, options.extraction);
  const Score score = score_of(suite, samples, judged, options.ks);
  if (!options.output.empty()) write_results(options.output, suite, samples, judged);
  if (model.run_id > 0) log_answers(database, model.run_id, options, suite, samples, judged);
  const ExactMatch matches = options.extraction ? exact_match(suite, samples) : ExactMatch();
  if (options.json)
    print_json(suite, score, matches);
  else
    print_text(suite, score, matches);
  return static_cast<int>(ExitStatus::done);
}

void add_answer_options(CLI::App& eval, Options& options) {
  const auto add = [&](CLI::Option* option) {
    options.of_answers.push_back(option->group("Options of a RUN"));
    return option;
  };
  AnswerRequest& answers = options.answers;
  add(eval.add_option("--answers", answers.samples, "to each problem"))
      ->check(CLI::Range(int64_t{1}, int64_t{10000}))
      ->capture_default_str();
  add(eval.add_option("--max-tokens", answers.max_tokens, "of an answer"))
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  add(eval.add_option("--temperature", answers.temperature, "0 is greedy"))
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  add(eval.add_option("--top-p", answers.top_p, "draw among the likeliest tokens of this share"))
      ->check(CLI::Range(1e-6, 1.0))
      ->capture_default_str();
  add(eval.add_option("--seed", answers.seed, "of the draws"))->capture_default_str();
}

}  // namespace

void add_eval(CommandLine& line) {
  const auto options = std::make_shared<Options>();
  auto& eval =
      line.add("eval", eval_help, [options](const GlobalOptions& globals) { return evaluate(*options, globals); });
  eval.add_option("RUN", options->run, "a run's number or name, or a folder with a finished model");
  eval.add_option("--suite", options->suite, "the problems and their tests")->type_name("FILE");
  eval.add_option("--text", options->texts, "a text; what each head loses on it is told; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  eval.add_option("--stride", options->stride, "tokens from one window of a text to the next; else the window's length")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  eval.add_option("--samples", options->samples, "answers to them, in place of a RUN's")->type_name("FILE");
  eval.add_option("--template", options->prompt_template, "that makes a record a prompt, as in [data] template")
      ->type_name("NAME")
      ->check(CLI::IsMember({"alpaca", "plain"}))
      ->capture_default_str();
  eval.add_option_function<std::string>(
          "--extract",
          [options](const std::string& given) {
            for (const auto& [name, extraction] : extractions)
              if (given == name) options->extraction = extraction;
          },
          "compare the numbers of a record's texts, found so, for the verdicts; both ways' scores are printed")
      ->type_name("HOW")
      ->check(CLI::IsMember({"strict", "flexible"}));
  add_answer_options(eval, *options);
  eval.add_option("-k", options->ks,
                  "of pass@k, with commas between; else those of 1, 10, 100 that there are samples for")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}));
  eval.add_option("--seconds", options->limits.seconds, "for each program")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  eval.add_option("--memory-mib", options->memory_mib, "for each program")
      ->check(CLI::Range(int64_t{64}, int64_t{1} << 20))
      ->capture_default_str();
  eval.add_option("--jobs", options->jobs, "programs at a time")->check(CLI::Range(1, 1024))->capture_default_str();
  eval.add_option("--python", options->python, "what runs them")->type_name("PROGRAM")->capture_default_str();
  eval.add_option("-o,--output", options->output, "each sample with its verdict (JSONL)")->type_name("FILE");
  eval.add_flag("--json", options->json, "the score as JSON");
}

}  // namespace wmtp
