// Rates on CPUs, from which `plan --like` derives seconds, from a finished run of the log. The median time of its steps
// has two parts: what its ranks wait for each other, divided by the bytes that they exchange, and the rest, in which
// they do the operations of a step, as its plan counts them. So everything else that a step does besides products is
// part of the rate of operations. What an exchange between hosts adds is measured on this machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "experiment/experiment.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {

struct MeasuredRate {
  int64_t run = 0;
  std::string name;
  int64_t ranks = 0;
  double operations = 0;        ///< per second and rank
  double exchange_seconds = 0;  ///< as in Rates
};

inline constexpr int64_t uncounted_steps = 2;  ///< the first logged ones, in which caches fill

/// `run`: id or name. Error(usage) if there is no such run, or it has not finished, logged too few steps, used another
/// device than the CPU or another precision.
MeasuredRate measured_rate(const std::filesystem::path& database, const std::string& run, Precision precision,
                           const Catalog& catalog);

/// Processor seconds per byte that travels through TCP, of the sender and the receiver together: median over three
/// transfers on the loopback, which take about 0.1 s. Error(peer) if the loopback cannot be used.
double measured_socket_seconds();

}  // namespace wmtp
