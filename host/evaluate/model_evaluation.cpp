#include "evaluate/model_evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_text.hpp"
#include "base/log.hpp"
#include "base/normal_path.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "evaluate/judge_program.hpp"
#include "io/durable_file.hpp"
#include "job/engine_process.hpp"
#include "job/find_model.hpp"
#include "log/evaluations.hpp"
#include "log/log_option.hpp"
#include "log/maintenance.hpp"

namespace wmtp {
namespace {

void write_results(const std::string& file, const std::vector<Problem>& suite, const std::vector<Sample>& samples,
                   const std::vector<Judged>& judged) {
  std::string lines;
  for (size_t i = 0; i < samples.size(); ++i) {
    const OrderedJson line{{"task_id", suite[samples[i].problem].task_id},
                           {"completion", samples[i].completion},
                           {"passed", judged[i].verdict == Verdict::passed},
                           {"verdict", to_string(judged[i].verdict)},
                           {"told", judged[i].message},
                           {"seconds", judged[i].seconds}};
    lines += dumped(line) + "\n";
  }
  write_file_durably(file, lines);
}

std::vector<Sample> answers_of(const SuiteRequest& request, const Suite& suite, const std::filesystem::path& model) {
  AnswerRequest answer_request = request.answers;
  answer_request.model = model;
  answer_request.stops = suite.stops;
  for (const Problem& problem : suite.problems) {
    answer_request.prompts.push_back(problem.prompt);
    if (!request.system.empty()) add_system_prompt(answer_request.prompts.back(), request.system);
  }
  std::vector<Sample> samples;
  size_t too_long = 0;
  for (const auto& sample : answer_with_engine(answer_request))
    for (size_t problem = 0; problem < sample.size(); ++problem) {
      too_long += !sample[problem];
      samples.push_back({problem, sample[problem].value_or("")});
    }
  if (too_long > 0)
    log_warning(with_thousands(int64_t(too_long)) +
                " answers are empty and count as failed, because their prompts exceed the model's sequence length");
  return samples;
}

std::optional<Extraction> extraction_named(const std::string& wanted) {
  for (const auto& [name, extraction] : extractions)
    if (name == wanted) return extraction;
  return std::nullopt;
}

/// What changes answers or verdicts, beside the settings that have their own columns.
std::string settings_text(const SuiteRequest& request) {
  const std::string judge =
      request.judge.empty() ? "" : absolute_path(request.judge).string() + " " + file_sha256_hex(request.judge);
  std::string text;
  for (const auto& [option, value] :
       {std::pair{"--template ", request.answers.prompt_template}, std::pair{"--system ", request.system},
        std::pair{"--extract ", request.extract}, std::pair{"--judge ", judge}})
    if (!value.empty()) text += (text.empty() ? "" : " ") + (option + value);
  return text.empty() ? "" : " (" + text + ")";
}

/// Without answers.
LoggedEvaluation evaluation_of(int64_t run_id, const SuiteRequest& request) {
  const AnswerRequest& how = request.answers;
  return {.run_id = run_id,
          .suite = absolute_path(request.suite).string() + settings_text(request),
          .suite_sha256 = file_sha256_hex(request.suite),
          .max_tokens = how.max_tokens,
          .temperature = how.temperature,
          .top_p = how.top_p,
          .seed = int64_t(how.seed)};
}

void log_answers(const std::filesystem::path& database, int64_t run_id, const std::string& run_key,
                 const SuiteRequest& request, const std::vector<Problem>& suite, const std::vector<Sample>& samples,
                 const std::vector<Judged>& judged) {
  LoggedEvaluation evaluation = evaluation_of(run_id, request);
  evaluation.run_key = run_key;
  std::vector<int64_t> of_problem(suite.size(), 0);
  for (size_t i = 0; i < samples.size(); ++i) {
    const size_t problem = samples[i].problem;
    evaluation.answers.push_back({suite[problem].task_id, ++of_problem[problem], to_string(judged[i].verdict),
                                  judged[i].seconds, judged[i].message, samples[i].completion});
  }
  log_info("evaluation " + std::to_string(log_evaluation(database, evaluation)) + " of run " + std::to_string(run_id) +
           " is logged; see `wmtp-host sql \"SELECT * FROM v_evaluations\"" + log_option(database) + "`");
}

void check_use(const SuiteRequest& request, const Suite& suite) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ExitStatus::usage, what + "; see `wmtp-host eval --help`");
  };
  if (!request.extract.empty() && !request.judge.empty())
    refuse("found both --extract and --judge, wanted one way to judge answers");
  if (!request.extract.empty() && suite.runs_programs)
    refuse("--extract applies only to a suite of answers; " + request.suite + " has tests");
  if (suite.has_template || request.run.empty()) return;  // given answers need no prompts
  for (const auto& [option, text] :
       {std::pair{"--template", request.answers.prompt_template}, std::pair{"--system", request.system}})
    if (!text.empty())
      refuse(std::string(option) + " applies only to prompts made by a template; " + request.suite +
             " has whole prompts, wanted questions, records, messages or messages with tests: {\"messages\": …, "
             "\"test\": …, \"entry_point\": …}");
}

/// Returns the number of answers left out.
int64_t leave_out_unjudged(std::vector<Sample>& samples, std::vector<Judged>& judged, const Sandbox& sandbox) {
  int64_t removed = 0;
  std::vector<std::string> modules;
  for (const auto& [module, count] : remove_unjudged(samples, judged, sandbox)) {
    removed += count;
    modules.push_back(module);
  }
  if (removed > 0)
    log_warning(counted(removed, "answer") + " not counted: " + sandbox.python().string() +
                " lacks modules that they import (" + join_names(modules) +
                "); install them, or name another Python with --python");
  return removed;
}

/// Without a run, and so not logged, if it is a checkpoint: the log's evaluations are of final models.
FoundModel model_to_evaluate(const std::string& text, const std::filesystem::path& database,
                             const std::vector<std::filesystem::path>& plugin_folders) {
  FoundModel model = open_model(text, database, plugin_folders);
  if (model.is_final || model.run_id == 0) return model;
  log_info("the result is not logged: it is that of a checkpoint, not of the run's final model");
  model.run_id = 0;
  return model;
}

/// Null if the targets have no text.
Json bits_per_byte(const HeadLoss& head) {
  if (head.bytes == 0) return nullptr;
  return head.loss * double(head.tokens) / (std::numbers::ln2 * double(head.bytes));
}

}  // namespace

SuiteResult evaluate_suite(const SuiteRequest& request, const std::filesystem::path& database,
                           const std::vector<std::filesystem::path>& plugin_folders) {
  const Suite read = read_suite(request.suite);
  const std::vector<Problem>& suite = read.problems;
  check_use(request, read);
  std::optional<Sandbox> sandbox;
  if (read.runs_programs && request.judge.empty()) sandbox.emplace(request.python, request.limits).check_works();
  const FoundModel model =
      request.run.empty() ? FoundModel() : model_to_evaluate(request.run, database, plugin_folders);
  const std::string run_key = model.run_id > 0 ? read_run_key(database, model.run_id) : "";
  std::vector<Sample> samples =
      request.run.empty() ? read_samples(request.samples, suite) : answers_of(request, read, model.folder);
  check_samples(suite, samples, request.ks);
  std::vector<Judged> judged =
      !request.judge.empty()
          ? judge_with_program({request.judge, request.suite, request.python}, suite, samples)
          : judge(suite, samples, sandbox ? &*sandbox : nullptr, request.jobs, extraction_named(request.extract));
  const int64_t not_counted = sandbox ? leave_out_unjudged(samples, judged, *sandbox) : 0;
  // First: there is no score if an answer that is not counted was the only one to its problem.
  if (!request.output.empty()) write_results(request.output, suite, samples, judged);
  SuiteResult result{suite.size(), not_counted, compute_score(suite, samples, judged, request.ks), {}};
  if (model.run_id > 0) log_answers(database, model.run_id, run_key, request, suite, samples, judged);
  if (request.extract.empty()) return result;
  for (const auto& [name, extraction] : extractions) {
    const Score exact = compute_score(suite, samples, judge(suite, samples, nullptr, 1, extraction), {1});
    result.exact_match.emplace_back(name, exact.pass_at.at(1));
  }
  return result;
}

int64_t logged_evaluation(const LogReader& log, int64_t run_id, const SuiteRequest& request) {
  const LoggedEvaluation wanted = evaluation_of(run_id, request);
  const Table found = log.query(
      "SELECT coalesce(max(id), 0) FROM evaluations WHERE run_id = ?1 AND suite = ?2 AND suite_sha256 = ?3 AND "
      "max_tokens = ?4 AND temperature = CAST(?5 AS REAL) AND top_p = CAST(?6 AS REAL) AND seed = ?7",
      {run_id, wanted.suite, wanted.suite_sha256, wanted.max_tokens, printed("%.17g", wanted.temperature),
       printed("%.17g", wanted.top_p), wanted.seed});
  return found.rows.empty() ? 0 : found.rows[0][0].get<int64_t>();
}

Table evaluate_texts(const std::string& run, const std::vector<std::string>& texts, int64_t stride,
                     const std::filesystem::path& database, const std::vector<std::filesystem::path>& plugin_folders) {
  const FoundModel model = model_to_evaluate(run, database, plugin_folders);
  PerplexityRequest request;
  request.model = model.folder;
  request.texts.assign(texts.begin(), texts.end());
  request.stride = stride;
  LoggedTextLosses logged{.run_id = model.run_id, .texts = request.texts, .stride = stride};
  if (model.run_id > 0) logged.run_key = read_run_key(database, model.run_id);
  Table table{{"head", "tokens", "loss", "perplexity", "bytes", "bits_per_byte"}, {}, false};
  for (const HeadLoss& head : perplexity_with_engine(request)) {
    logged.heads.push_back({head.tokens, head.loss, head.bytes});
    table.rows.push_back(
        {int64_t(logged.heads.size()), head.tokens, head.loss, std::exp(head.loss), head.bytes, bits_per_byte(head)});
  }
  if (model.run_id > 0)
    log_info("text evaluation " + std::to_string(log_text_losses(database, logged)) + " of run " +
             std::to_string(model.run_id) + " is logged; see `wmtp-host sql \"SELECT * FROM v_text_losses\"" +
             log_option(database) + "`");
  return table;
}

}  // namespace wmtp
