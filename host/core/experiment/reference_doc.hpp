// docs/experiment.md, generated from the schema.
#pragma once

#include <string>

namespace wmtp {

std::string experiment_reference_markdown();

}  // namespace wmtp
