// Text from a finished model: the model is loaded, a prompt encoded, tokens decoded.
#pragma once

#include <functional>

#include "core/job/engine_requests.hpp"

namespace wmtp {

/// `show` gets the text, part by part. Error(usage) where the prompt does not suit the model, Error(data) where the model
/// cannot be used.
Generated generate(const GenerateRequest& request, const std::function<void(const std::string&)>& show);
/// Error(data) where the model cannot be used, or names no tokenizer.
Answers write_answers(const AnswerRequest& request);

}  // namespace wmtp
