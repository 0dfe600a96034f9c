// Names of the sdk's signals in messages, descriptions and the run log: "policy.loss", "policy.value:NAME".
#pragma once

#include <string>
#include <wmtp/step.hpp>

namespace wmtp {

std::string to_text(Signal signal);
std::string to_text(const ValueSignal& value);
/// Whether the frozen model of [reference] computes this signal.
bool is_reference_signal(Signal signal);

}  // namespace wmtp
