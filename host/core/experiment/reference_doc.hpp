// The experiment reference (docs/experiment.md), made from the schema.
#pragma once

#include <string>

namespace wmtp {

std::string experiment_reference_markdown();

}  // namespace wmtp
