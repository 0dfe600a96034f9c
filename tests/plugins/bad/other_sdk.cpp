// other_sdk: a plugin of a later sdk; it must be refused before its static object runs.
#include <wmtp/plugin.hpp>

#include "canary.hpp"

#undef WMTP_SDK_MINOR
#define WMTP_SDK_MINOR 99

class OtherSdk : public wmtp::Weighting {
 public:
  wmtp::Needs needs() const override { return {}; }
  wmtp::Weights weigh(wmtp::BatchStep&) override { return wmtp::Weights::uniform(); }
};

WMTP_PIPELINE(OtherSdk, "other_sdk", "1.0", "built for another sdk")
