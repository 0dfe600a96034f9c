#include "plugins/torch/signals.hpp"

#include <array>

namespace wmtp {

std::string to_text(Signal signal) {
  constexpr std::array names{"policy.loss",     "policy.entropy",    "policy.rank",          "policy.margin",
                             "policy.top_mass", "policy.agreement",  "policy.previous_loss", "policy.alignment",
                             "reference.loss",  "reference.entropy", "data.weight",          "data.bytes",
                             "data.correct",    "data.pass_rate"};
  static_assert(names.size() == size_t(Signal::data_pass_rate) + 1);
  return names.at(size_t(signal));
}

std::string to_text(const ReferenceSignal& signal) {
  return "references." + signal.name + (signal.signal == Signal::reference_loss ? ".loss" : ".entropy");
}

std::string to_text(const ValueSignal& value) {
  return value.is_frozen() ? "value.value" : "policy.value:" + value.head();
}

bool is_policy_signal(Signal signal) { return signal <= Signal::policy_previous_loss; }

bool is_data_signal(Signal signal) { return signal >= Signal::data_weight; }

bool is_reference_signal(Signal signal) {
  return signal == Signal::reference_loss || signal == Signal::reference_entropy;
}

}  // namespace wmtp
