// breaks_promises: valid weights, except that the promise of the sdk that its option names is broken.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <wmtp/plugin.hpp>

namespace {

int64_t calls_of_all = 0;

class BreaksPromises : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override {
    o.text("promise", promise_, "the one that is broken",
           {"none", "no_targets", "extremes", "again", "resumes", "no_crash", "returns"});
  }
  wmtp::Needs needs() const override { return {.when = wmtp::When::head, .reads = {wmtp::Signal::policy_loss}}; }

  wmtp::Weights weigh(wmtp::HeadStep& step) override {
    const wmtp::Tensor loss = step.get(wmtp::Signal::policy_loss), valid = step.valid();
    if (promise_ == "no_crash") std::raise(SIGSEGV);
    if (promise_ == "returns" && !valid.any().item<bool>()) std::exit(0);
    while (promise_ == "returns" && loss.max().item<double>() > 1000) pause();
    if (promise_ == "no_targets") return wmtp::Weights::by_source(valid / valid.sum());
    if (promise_ == "extremes") return wmtp::Weights::by_source(at::where(valid, loss / loss, 0.0));
    const int64_t calls = promise_ == "again" ? ++calls_of_all : promise_ == "resumes" ? ++calls_ : 1;
    return wmtp::Weights::by_source(valid.to(at::kFloat) * double(calls));
  }

 private:
  std::string promise_ = "none";
  int64_t calls_ = 0;
};

}  // namespace

WMTP_PIPELINE(BreaksPromises, "breaks_promises", "1.0", "breaks the promise that its option names")
