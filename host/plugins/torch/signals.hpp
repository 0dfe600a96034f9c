// Names of the sdk's signals in messages, descriptions and the run log: "policy.loss", "references.NAME.loss",
// "policy.value:NAME".
#pragma once

#include <string>
#include <wmtp/step.hpp>

namespace wmtp {

std::string to_text(Signal signal);
std::string to_text(const ReferenceSignal& signal);
std::string to_text(const ValueSignal& value);
/// Whether the policy computes this signal, so that it exists only after its heads.
bool is_policy_signal(Signal signal);
/// Whether the frozen model of [reference] computes this signal. All others are of the data.
bool is_reference_signal(Signal signal);

}  // namespace wmtp
