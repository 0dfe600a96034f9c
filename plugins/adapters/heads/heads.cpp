// heads: the heads of further tokens are trained, and all that a next-token model has of its own stays as it is: trunk,
// head 1, final norm, embedding and output layer. For a pretrained model that is given heads, as
// Medusa-1 gives them (Cai et al., arXiv 2401.10774).
#include <wmtp/plugin.hpp>

namespace {

class Heads : public wmtp::Adapter {
 public:
  bool trains(const std::string& parameter) const override { return parameter.starts_with("extra_heads."); }
};

}  // namespace

WMTP_ADAPTER(Heads, "heads", "1.0", "trains the heads of the second and later tokens, on a frozen model")
