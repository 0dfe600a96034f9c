// heads: the heads of the second and later tokens train; trunk, head 1, final norm, embedding and output layer do not.
// For adding heads to a pretrained model, as in Medusa-1 (Cai et al., arXiv 2401.10774).
#include <wmtp/plugin.hpp>

namespace {

class Heads : public wmtp::Adapter {
 public:
  bool trains(const std::string& parameter) const override { return parameter.starts_with("extra_heads."); }
};

}  // namespace

WMTP_ADAPTER(Heads, "heads", "1.0", "trains the heads of the second and later tokens on a frozen model")
