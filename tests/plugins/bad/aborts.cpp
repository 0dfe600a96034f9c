// aborts: its static object aborts the process.
#include <cstdlib>
#include <wmtp/plugin.hpp>

#include "canary.hpp"

namespace {
struct Fault {
  Fault() { std::abort(); }
} const fault;
}  // namespace

class Aborts : public wmtp::Weighting {
 public:
  wmtp::Needs needs() const override { return {}; }
  wmtp::Weights weigh(wmtp::BatchStep&) override { return wmtp::Weights::uniform(); }
};

WMTP_PIPELINE(Aborts, "aborts", "1.0", "its static object ends the process")
