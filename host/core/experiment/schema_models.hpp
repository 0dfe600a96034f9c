// The schema's tables of plugins and models: [pipeline], [adapter], [model] and the frozen models beside it.
#pragma once

#include <string>

#include "core/experiment/schema.hpp"

namespace wmtp {

SchemaTable pipeline_table();
SchemaTable inner_table();
SchemaTable adapter_table();
SchemaTable model_table();
SchemaTable model_rope_table();
SchemaTable reference_table();
SchemaTable reference_model_table();
SchemaTable reference_rope_table();
SchemaTable value_table();
SchemaTable value_model_table();
SchemaTable value_rope_table();

}  // namespace wmtp
