// full: every parameter of the model trains, and none are added.
#include <wmtp/plugin.hpp>

namespace {

class Full : public wmtp::Adapter {
 public:
  bool trains(const std::string&) const override { return true; }
};

}  // namespace

WMTP_ADAPTER(Full, "full", "1.0", "trains every parameter of the model")
