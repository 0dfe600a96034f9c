// Names of the sdk's signals in messages, descriptions and the run log: "policy.loss", "references.NAME.loss",
// "policy.value:NAME".
#pragma once

#include <string>
#include <wmtp/step.hpp>

namespace wmtp {

std::string to_text(Signal signal);
std::string to_text(const ReferenceSignal& signal);
std::string to_text(const ValueSignal& value);
/// Whether it is of the policy's predictions, so that it exists only after its heads. (policy.alignment exists before.)
bool is_policy_signal(Signal signal);
/// Whether the frozen model of [reference] computes it.
bool is_reference_signal(Signal signal);
bool is_data_signal(Signal signal);

}  // namespace wmtp
