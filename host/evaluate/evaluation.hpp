// Judges samples, by running their tests in parallel or by comparing texts, and computes the scores.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "evaluate/extraction.hpp"
#include "evaluate/sandbox.hpp"
#include "evaluate/suite.hpp"

namespace wmtp {

/// Results in the order of the samples. `sandbox` runs programs; it may be null if every problem has an answer: then
/// texts are compared, or the numbers found by `extraction`.
std::vector<Judged> judge(const std::vector<Problem>& suite, const std::vector<Sample>& samples, const Sandbox* sandbox,
                          int jobs, std::optional<Extraction> extraction = {});

/// The probability that at least one of k samples drawn from n, of which c passed, has passed: 1 - C(n-c, k) / C(n, k),
/// as a product (Chen et al. 2021, arXiv 2107.03374, section 2.1). [0 <= c <= n, 1 <= k <= n]
double pass_at_k(int64_t n, int64_t c, int64_t k);

/// The group that a task_id names: what is before its last '/'; "" without one.
std::string group_of(const std::string& task_id);

struct Score {
  int64_t samples = 0, passed = 0, timed_out = 0;
  std::map<int64_t, double> pass_at;  ///< by k, the mean over the problems
  struct Group {
    int64_t problems = 0;
    std::map<int64_t, double> pass_at = {};  ///< the same over its problems
  };
  std::map<std::string, Group> groups;  ///< by name
};

/// Error(usage) if a problem has fewer samples than one of `ks`; empty `ks`: those of 1, 10 and 100 for which every
/// problem has enough samples. Error(data) if a problem has no sample.
Score compute_score(const std::vector<Problem>& suite, const std::vector<Sample>& samples,
                    const std::vector<Judged>& judged, const std::vector<int64_t>& ks);

/// Throws the errors of compute_score before any program is run.
void check_samples(const std::vector<Problem>& suite, const std::vector<Sample>& samples,
                   const std::vector<int64_t>& ks);

/// Removes the answers that failed for want of a module from `samples` and `judged`, which correspond; returns their
/// number by module. Only widely used modules that the sandbox's Python really lacks: an invented module is a wrong
/// answer, and a program could write the message of any. (missing_modules.cpp)
std::map<std::string, int64_t> remove_unjudged(std::vector<Sample>& samples, std::vector<Judged>& judged,
                                               const Sandbox& sandbox);

}  // namespace wmtp
