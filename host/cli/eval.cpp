// `eval`: samples of answers to a suite of programming problems, scored by really running the suite's tests.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/durable_file.hpp"
#include "cli/command.hpp"
#include "eval/evaluation.hpp"

namespace wmtp {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* eval_help =
    "score answers to programming problems by running their tests\n\n"
    "The suite is a file of problems in the shape of HumanEval or MBPP (JSONL); the samples are answers to them (JSONL "
    "of\n"
    "task_id and completion, any number for each problem). Every program runs in a process of its own that can write "
    "only\n"
    "to a folder of its own, open no socket, start and signal no process, and has limits of time and memory.\n\n"
    "examples:\n"
    "  wmtp-host eval --suite HumanEval.jsonl --samples samples.jsonl\n"
    "  wmtp-host eval --suite HumanEval.jsonl --samples samples.jsonl -k 1,10 --seconds 5 -o results.jsonl --json\n";

struct Options {
  std::string suite, samples, output, python = "python3";
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
                    {"told", judged[i].told},
                    {"seconds", judged[i].seconds}};
    lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  write_file_durably(file, lines);
}

void print_text(const std::vector<Problem>& suite, const Score& score) {
  std::cout << with_thousands(score.samples) << " samples of " << with_thousands(int64_t(suite.size()))
            << " problems: " << with_thousands(score.passed) << " passed, "
            << with_thousands(score.samples - score.passed - score.timed_out) << " failed, "
            << with_thousands(score.timed_out) << " ran out of time\n";
  for (const auto& [k, value] : score.pass_at) std::cout << "pass@" << k << "  " << printed("%.4f", value) << '\n';
}

void print_json(const std::vector<Problem>& suite, const Score& score) {
  Json json{{"problems", suite.size()},
            {"samples", score.samples},
            {"passed", score.passed},
            {"timed_out", score.timed_out},
            {"pass_at", Json::object()}};
  for (const auto& [k, value] : score.pass_at) json["pass_at"][std::to_string(k)] = value;
  std::cout << json.dump(1) << '\n';
}

int evaluate(Options options) {
  options.limits.memory_bytes = options.memory_mib << 20;
  if (!options.output.empty() && std::filesystem::exists(options.output))
    throw Error(ExitStatus::usage, "-o " + options.output + " is there already; name another file");
  const std::vector<Problem> suite = read_suite(options.suite);
  const std::vector<Sample> samples = read_samples(options.samples, suite);
  check_samples(suite, samples, options.ks);
  const Sandbox sandbox(options.python, options.limits);
  const size_t tenth = std::max<size_t>(1, samples.size() / 10);
  const std::vector<Judged> judged = judge(suite, samples, sandbox, options.jobs, [&](size_t done) {
    if (done % tenth == 0)
      log_info("ran " + with_thousands(int64_t(done)) + " of " + with_thousands(int64_t(samples.size())) + " samples");
  });
  const Score score = score_of(suite, samples, judged, options.ks);
  if (!options.output.empty()) write_results(options.output, suite, samples, judged);
  if (options.json)
    print_json(suite, score);
  else
    print_text(suite, score);
  return static_cast<int>(ExitStatus::done);
}

}  // namespace

void add_eval(CommandLine& line) {
  const auto options = std::make_shared<Options>();
  auto& eval = line.add("eval", eval_help, [options](const GlobalOptions&) { return evaluate(*options); });
  eval.add_option("--suite", options->suite, "the problems and their tests")->type_name("FILE")->required();
  eval.add_option("--samples", options->samples, "answers to them")->type_name("FILE")->required();
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
