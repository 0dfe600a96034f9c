// frozen: no parameter of the model trains. For pipelines that train their own heads on it, such as critic.
#include <wmtp/plugin.hpp>

namespace {

class Frozen : public wmtp::Adapter {
 public:
  bool trains(const std::string&) const override { return false; }
};

}  // namespace

WMTP_ADAPTER(Frozen, "frozen", "1.0", "trains no parameter of the model, only heads that the pipeline declares")
