// The engine's part of `wmtp-host generate`: a finished model loaded, a prompt made into ids, text out of it.
#pragma once

#include "core/job/generation.hpp"

namespace wmtp {

/// Errors as generate_with_engine.
Generated generate(const GenerateRequest& request);
void write_answers(const AnswerRequest& request);

}  // namespace wmtp
