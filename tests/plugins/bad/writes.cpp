// writes: its static object writes to stdout, where the probe's answer is expected.
#include <cstdio>
#include <wmtp/plugin.hpp>

#include "canary.hpp"

namespace {
struct Fault {
  Fault() { std::puts("{\"kind\": \"a lie\"}"); }
} const fault;
}  // namespace

class Writes : public wmtp::Weighting {
 public:
  wmtp::Needs needs() const override { return {}; }
  wmtp::Weights weigh(wmtp::BatchStep&) override { return wmtp::Weights::uniform(); }
};

WMTP_PIPELINE(Writes, "writes", "1.0", "its static object writes to stdout, where the probe's answer is expected")
