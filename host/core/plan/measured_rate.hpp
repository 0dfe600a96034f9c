// The speed of a finished run of the log, from which `plan --like` derives the seconds of other runs on the CPU: the
// operations of a step, as its replay counts them, over the median time of its steps. So everything that a step does
// besides products is part of the rate, with the exchange between ranks of one host.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/experiment/experiment.hpp"
#include "core/plugins/catalog.hpp"

namespace wmtp {

struct MeasuredRate {
  int64_t run = 0;
  std::string name;
  int64_t ranks = 0;
  double operations = 0;  ///< per second and rank
};

inline constexpr int64_t uncounted_steps = 2;  ///< the first logged ones, in which caches fill

/// `run`: id or name. Error(usage) if there is no such run, or it has not finished, logged too few steps, used another
/// device than the CPU or another precision.
MeasuredRate measured_rate(const std::filesystem::path& database, const std::string& run, Precision precision,
                           const Catalog& catalog);

}  // namespace wmtp
