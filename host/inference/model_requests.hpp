// Answers the requests of job/engine_requests.hpp about a finished model.
#pragma once

#include <functional>

#include "job/engine_requests.hpp"

namespace wmtp {

/// Generates text; `show` receives it piece by piece. Error(usage) if the prompt does not suit the model, Error(data)
/// if the model cannot be used.
Generated generate(const GenerateRequest& request, const std::function<void(const std::string&)>& show);

/// Answers many prompts. Error(data) if the model cannot be used or names no tokenizer.
Answers write_answers(const AnswerRequest& request);

/// Each head's losses on the texts, head 1 first. Error(usage) for a text that the tokenizer rejects, for texts without
/// a token to predict and for a stride above the window's length; Error(data) if the model cannot be used or names no
/// tokenizer.
std::vector<HeadLoss> head_losses(const PerplexityRequest& request);

/// Merges an adapter into its base model: writes the request's target, a folder like a run's model/, with the base's
/// tokenizer. Holds the whole model in fp32. Error(data) if either folder is damaged, or the adapter has another base,
/// plugin or shape; Error(storage).
void merge_adapter(const MergeRequest& request);

/// Writes the complete model of a checkpoint that holds only what its run trains: tensor by tensor equal to the model
/// that the run would save if it ended there. Holds the whole model in fp32. Error(data) if the checkpoint is damaged,
/// or its base is missing or another one; Error(storage).
void complete_checkpoint(const CompleteRequest& request);

}  // namespace wmtp
