// frozen: the model stays as it is. For a pipeline that trains heads of its own on it, as the critic does.
#include <wmtp/plugin.hpp>

namespace {

class Frozen : public wmtp::Adapter {
 public:
  bool trains(const std::string&) const override { return false; }
};

}  // namespace

WMTP_ADAPTER(Frozen, "frozen", "1.0", "trains nothing of the model: only heads that the pipeline declares")
