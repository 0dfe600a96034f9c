// Evaluates a model by judging its answers to a suite of problems or by its loss on texts, and logs the result if the
// model is the final one of a run in the log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/machine.hpp"
#include "evaluate/evaluation.hpp"
#include "job/engine_requests.hpp"
#include "log/log_reader.hpp"

namespace wmtp {

struct SuiteRequest {
  std::string run, suite, python;
  std::string samples;    ///< file of answers to judge instead of a run's
  std::string output;     ///< file for each sample with its verdict; "": none
  AnswerRequest answers;  ///< how the run's model generates answers
  std::string extract;    ///< "strict", "flexible", or "": answers are compared whole
  std::string judge;      ///< the user's program that judges answers (judge_program.hpp); "": by tests or texts
  std::string system;     ///< the system prompt of every problem; "": none but its own
  std::vector<int64_t> ks;
  SandboxLimits limits;
  int jobs = usable_cores();  ///< concurrent programs
};

struct SuiteResult {
  size_t problems = 0;
  int64_t not_counted = 0;  ///< answers that import modules which Python lacks
  Score score;
  /// With `extract`, for each extraction: the share of right answers, averaged over the problems.
  std::vector<std::pair<std::string, double>> exact_match;
};

/// Throws the errors of read_suite, open_model, read_samples, answer_with_engine, check_samples, judge and
/// judge_with_program; Error(usage) for `extract` with a suite of programs, and for a run's template or a system prompt
/// with a suite of whole prompts.
SuiteResult evaluate_suite(const SuiteRequest& request, const std::filesystem::path& database,
                           const std::vector<std::filesystem::path>& plugin_folders);

/// The newest evaluation of the run in the log with this suite and these settings; 0: none. Errors as for reading the
/// suite's file.
int64_t logged_evaluation(const LogReader& log, int64_t run_id, const SuiteRequest& request);

/// One row per head: its number, number of targets, mean loss in nats, perplexity, bytes of the targets' text, loss in
/// bits per byte. `stride`: tokens from one window to the next; 0: the window's length.
Table evaluate_texts(const std::string& run, const std::vector<std::string>& texts, int64_t stride,
                     const std::filesystem::path& database, const std::vector<std::filesystem::path>& plugin_folders);

}  // namespace wmtp
