// The tables of the schema (schema.hpp) that say what is trained on and what is held out.
#pragma once

#include "core/experiment/schema.hpp"

namespace wmtp {

SchemaTable data_table();
SchemaTable tokenizer_table();
SchemaTable arithmetic_table();
SchemaTable difficulty_table();
SchemaTable validation_table();

}  // namespace wmtp
