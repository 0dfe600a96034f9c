// Samples judged by running their tests, several at a time, or by comparing texts, and what comes of it. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "evaluate/extraction.hpp"
#include "evaluate/sandbox.hpp"
#include "evaluate/suite.hpp"

namespace wmtp {

/// In the samples' order. `sandbox` runs programs; nothing of it is asked where a problem has its answer. Whole texts are
/// compared there, or their numbers by `extraction`.
std::vector<Judged> judge(const std::vector<Problem>& suite, const std::vector<Sample>& samples, const Sandbox* sandbox,
                          int jobs, std::optional<Extraction> extraction = {});

struct Score {
  int64_t samples = 0, passed = 0, timed_out = 0;
  std::map<int64_t, double> pass_at;  ///< by k, the mean over the problems
};

/// `ks`: refused with Error(usage) where some problem has fewer samples; empty: those of 1, 10 and 100 that every
/// problem has. Error(data) when a problem has no sample.
Score score_of(const std::vector<Problem>& suite, const std::vector<Sample>& samples, const std::vector<Judged>& judged,
               const std::vector<int64_t>& ks);

/// What score_of would refuse, before anything is run.
void check_samples(const std::vector<Problem>& suite, const std::vector<Sample>& samples,
                   const std::vector<int64_t>& ks);

}  // namespace wmtp
