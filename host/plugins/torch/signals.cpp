#include "plugins/torch/signals.hpp"

namespace wmtp {

std::string to_text(Signal signal) {
  switch (signal) {
    case Signal::policy_loss:
      return "policy.loss";
    case Signal::policy_entropy:
      return "policy.entropy";
    case Signal::reference_loss:
      return "reference.loss";
    case Signal::reference_entropy:
      return "reference.entropy";
  }
  return "";
}

std::string to_text(const ValueSignal& value) {
  return value.is_frozen() ? "value.value" : "policy.value:" + value.head();
}

bool is_reference_signal(Signal signal) {
  return signal == Signal::reference_loss || signal == Signal::reference_entropy;
}

}  // namespace wmtp
