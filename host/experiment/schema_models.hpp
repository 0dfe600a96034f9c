// The schema's tables of plugins and models: [pipeline], [adapter], [model] and the frozen models beside it.
#pragma once

#include <string>

#include "experiment/schema.hpp"

namespace wmtp {

/// A public name without a place in this version's Experiment, and what to do instead.
Key refused(std::string name, std::string instead);

SchemaTable pipeline_table();
SchemaTable inner_table();
SchemaTable adapter_table();
SchemaTable model_table();
SchemaTable reference_table();
SchemaTable reference_model_table();
SchemaTable value_table();
SchemaTable value_model_table();

}  // namespace wmtp
