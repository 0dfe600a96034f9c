// exits: its static object ends the process with exit code 0.
#include <unistd.h>

#include <wmtp/plugin.hpp>

#include "canary.hpp"

namespace {
struct Fault {
  Fault() { _exit(0); }
} const fault;
}  // namespace

class Exits : public wmtp::Weighting {
 public:
  wmtp::Needs needs() const override { return {}; }
  wmtp::Weights weigh(wmtp::BatchStep&) override { return wmtp::Weights::uniform(); }
};

WMTP_PIPELINE(Exits, "exits", "1.0", "its static object ends the process with exit code 0")
