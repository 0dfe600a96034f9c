// other_headers: a plugin of the same sdk version with one header changed; it must be refused before its static object
// runs.
#include <wmtp/plugin.hpp>

#include "canary.hpp"

#undef WMTP_SDK_HEADERS
#define WMTP_SDK_HEADERS 0123456789ab

class OtherHeaders : public wmtp::Weighting {
 public:
  wmtp::Needs needs() const override { return {}; }
  wmtp::Weights weigh(wmtp::BatchStep&) override { return wmtp::Weights::uniform(); }
};

WMTP_PIPELINE(OtherHeaders, "other_headers", "1.0", "built with other headers")
