#include "evaluate/evaluation.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"

namespace wmtp {
namespace {

constexpr size_t names_shown = 5;
constexpr size_t shown_of_a_difference = 24;

std::vector<int64_t> samples_of_problems(const std::vector<Problem>& suite, const std::vector<Sample>& samples) {
  std::vector<int64_t> counts(suite.size(), 0);
  for (const Sample& sample : samples) ++counts[sample.problem];
  return counts;
}

void refuse_problems_without(const std::vector<Problem>& suite, const std::vector<int64_t>& counts) {
  std::vector<std::string> missing;
  for (size_t i = 0; i < suite.size(); ++i)
    if (counts[i] == 0) missing.push_back(suite[i].task_id);
  if (missing.empty()) return;
  const size_t all = missing.size();
  if (all > names_shown) missing.resize(names_shown);
  throw Error(ExitStatus::data, with_thousands(int64_t(all)) + " of " + with_thousands(int64_t(suite.size())) +
                                    " problems have no sample, and a score without them is not comparable: " +
                                    join_names(missing) + (all > names_shown ? " and others" : ""));
}

/// Exact match; otherwise reports the first difference.
Judged compared(const std::string& completion, const std::string& answer) {
  if (completion == answer) return {Verdict::passed, "", 0};
  const size_t at =
      std::mismatch(completion.begin(), completion.end(), answer.begin(), answer.end()).first - completion.begin();
  const auto rest = [at](const std::string& text) {
    const std::string part = text.substr(std::min(at, text.size()), shown_of_a_difference);
    return part.empty() ? std::string("the end") : "\"" + part + "\"";
  };
  return {Verdict::failed,
          "at byte " + std::to_string(at + 1) + ": found " + rest(completion) + ", wanted " + rest(answer), 0};
}

Judged compared_numbers(const std::string& completion, const std::string& answer, Extraction extraction) {
  const std::string found = normalized_number(extracted_number(completion, extraction)),
                    wanted = normalized_number(answer);
  if (found == wanted) return {Verdict::passed, "", 0};
  return {Verdict::failed, "found " + found + ", wanted " + wanted, 0};
}

std::string program_of(const Problem& problem, const Sample& sample) {
  if (sample.is_whole) return sample.completion;
  return problem.prompt.messages.is_array() ? extracted_program(sample.completion) : problem.before + sample.completion;
}

}  // namespace

double pass_at_k(int64_t n, int64_t c, int64_t k) {
  double none = 1;  // the probability that all k fail
  for (int64_t i = n - c + 1; i <= n; ++i) none *= 1.0 - double(k) / double(i);
  return n - c < k ? 1.0 : 1.0 - none;
}

std::string group_of(const std::string& task_id) {
  const size_t end = task_id.rfind('/');
  return end == std::string::npos ? "" : task_id.substr(0, end);
}

std::vector<Judged> judge(const std::vector<Problem>& suite, const std::vector<Sample>& samples, const Sandbox* sandbox,
                          int jobs, std::optional<Extraction> extraction) {
  std::vector<Judged> judged(samples.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr fault;
  WorkProgress progress("judging samples", int64_t(samples.size()));
  const auto work = [&] {
    for (size_t i = next++; i < samples.size(); i = next++) {
      try {
        const Problem& problem = suite[samples[i].problem];
        judged[i] =
            problem.answer && extraction ? compared_numbers(samples[i].completion, *problem.answer, *extraction)
            : problem.answer
                ? compared(samples[i].completion, *problem.answer)
                : sandbox->run({program_of(problem, samples[i]), problem.tests, problem.before, problem.entry_point});
        progress.advance(1);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!fault) fault = std::current_exception();
        next = samples.size();  // stops every thread
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (int i = 1; i < jobs; ++i) threads.emplace_back(work);
    } catch (const std::system_error&) {  // fewer threads, or only this one, judge all samples
    }
    work();
  }
  if (fault) std::rethrow_exception(fault);
  return judged;
}

void check_samples(const std::vector<Problem>& suite, const std::vector<Sample>& samples,
                   const std::vector<int64_t>& ks) {
  const std::vector<int64_t> counts = samples_of_problems(suite, samples);
  refuse_problems_without(suite, counts);
  for (const int64_t k : ks)
    for (size_t i = 0; i < suite.size(); ++i)
      if (counts[i] < k)
        throw Error(ExitStatus::usage, "-k " + std::to_string(k) + " needs " + std::to_string(k) +
                                           " samples of every problem, but " + suite[i].task_id + " has " +
                                           std::to_string(counts[i]));
}

Score compute_score(const std::vector<Problem>& suite, const std::vector<Sample>& samples,
                    const std::vector<Judged>& judged, const std::vector<int64_t>& ks) {
  check_samples(suite, samples, ks);
  const std::vector<int64_t> counts = samples_of_problems(suite, samples);
  std::vector<int64_t> passed(suite.size(), 0);
  Score score;
  for (size_t i = 0; i < samples.size(); ++i) {
    ++score.samples;
    score.passed += judged[i].verdict == Verdict::passed;
    score.timed_out += judged[i].verdict == Verdict::timed_out;
    passed[samples[i].problem] += judged[i].verdict == Verdict::passed;
  }
  std::vector<int64_t> wanted = ks;
  const int64_t fewest = *std::min_element(counts.begin(), counts.end());
  if (wanted.empty())
    for (const int64_t k : {1, 10, 100})
      if (k <= fewest) wanted.push_back(k);
  for (const Problem& problem : suite) ++score.groups[group_of(problem.task_id)].problems;
  for (const int64_t k : wanted) {
    std::map<std::string, double> sums;
    double sum = 0;
    for (size_t i = 0; i < suite.size(); ++i) {
      const double pass = pass_at_k(counts[i], passed[i], k);
      sum += pass;
      sums[group_of(suite[i].task_id)] += pass;
    }
    score.pass_at[k] = sum / double(suite.size());
    for (auto& [name, group] : score.groups) group.pass_at[k] = sums[name] / double(group.problems);
  }
  return score;
}

}  // namespace wmtp
