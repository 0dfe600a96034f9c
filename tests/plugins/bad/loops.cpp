// loops: its static object never returns.
#include <unistd.h>

#include <wmtp/plugin.hpp>

#include "canary.hpp"

namespace {
struct Fault {
  Fault() {
    for (;;) pause();
  }
} const fault;
}  // namespace

class Loops : public wmtp::Weighting {
 public:
  wmtp::Needs needs() const override { return {}; }
  wmtp::Weights weigh(wmtp::BatchStep&) override { return wmtp::Weights::uniform(); }
};

WMTP_PIPELINE(Loops, "loops", "1.0", "its static object never returns")
