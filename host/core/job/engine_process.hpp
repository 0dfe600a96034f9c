// wmtp-engine, the program that links LibTorch, started as a child process or in place of this one.
//
// A request goes to it in a file, its answer comes back in a file; its stdout and stderr are ours. It dies with us.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/job/engine_requests.hpp"
#include "core/job/job_request.hpp"

namespace wmtp {

/// Of a rank of our own launcher that has finished; under other launchers it is 0.
inline constexpr int finished_exit_code = 100;

/// What a rank is started with: the program's arguments.
std::vector<std::string> rank_arguments(const JobRequest& request);

/// Replaces this process by a rank of the job. [under a foreign launcher] Throws Error(bug) when it cannot.
[[noreturn]] void become_rank(const JobRequest& request);

/// `data prepare`: tokenizer and token files of the experiment. Returns the exit code; the engine has printed the error.
int prepare_with_engine(const JobRequest& request);

/// JSON: {"libtorch": version, "cpu": …, "bf16": …, "threads": n, "cuda": …}, see engine/run/about_engine.hpp.
std::string about_engine_of_this_build();

// Each throws the engine's error with its status; Error(bug) when the engine is missing or ends without an answer.
/// Error(usage) where the prompt does not suit the model, Error(data) where the model cannot be used.
Generated generate_with_engine(const GenerateRequest& request);
/// Error(data) where the model cannot be used, or names no tokenizer.
Answers answer_with_engine(const AnswerRequest& request);
/// One for each head, the first one first. Errors as losses_of_heads in engine/inference/perplexity.hpp.
std::vector<HeadLoss> perplexity_with_engine(const PerplexityRequest& request);
/// Errors as merge_adapter in engine/inference/merge.hpp.
void merge_with_engine(const MergeRequest& request);

}  // namespace wmtp
